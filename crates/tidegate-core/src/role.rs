//! Operators' roles; each includes the permissions of the one before it.

use crate::words::words;

words! {
    /// Viewers read, operators run sales and draws, admins manage accounts.
    Role { Viewer "viewer" Operator "operator" Admin "admin" }
}

impl Role {
    /// Whether this role includes the other one.
    pub fn covers(self, least: Self) -> bool {
        let place = |role| Self::ALL.iter().position(|each| *each == role);
        place(self) >= place(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_covers_the_lower_ones() {
        for (at, role) in Role::ALL.iter().enumerate() {
            let covered: Vec<_> = Role::ALL.iter().filter(|least| role.covers(**least)).collect();
            assert_eq!(covered, Role::ALL[..=at].iter().collect::<Vec<_>>());
            assert_eq!(Role::parse(role.as_str()), Some(*role));
        }
        assert_eq!(Role::parse("Admin"), None);
    }
}
