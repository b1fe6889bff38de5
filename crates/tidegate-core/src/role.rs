//! What an operator may do: each role may do what the one before it may, and more.

use crate::words::words;

words! {
    /// Viewers look, operators run sales and draws, admins decide who the others are.
    Role { Viewer "viewer" Operator "operator" Admin "admin" }
}

impl Role {
    /// Whether it may do what needs at least the other one.
    pub fn covers(self, least: Self) -> bool {
        let place = |role| Self::ALL.iter().position(|each| *each == role);
        place(self) >= place(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_the_one_before_it_may() {
        for (at, role) in Role::ALL.iter().enumerate() {
            let covered: Vec<_> = Role::ALL.iter().filter(|least| role.covers(**least)).collect();
            assert_eq!(covered, Role::ALL[..=at].iter().collect::<Vec<_>>());
            assert_eq!(Role::parse(role.as_str()), Some(*role));
        }
        assert_eq!(Role::parse("Admin"), None);
    }
}
