//! What SQLite and PostgreSQL say differently.
//!
//! Statements are written for SQLite, in words that PostgreSQL understands too, but for: `?` and `?1`, which become `$1`;
//! the column `user`, a reserved word there; `INDEXED BY`, which only SQLite knows; and what is in `/*pg … */`, which only
//! PostgreSQL is told: locks, above all. Many rows at once are the table `given`: for SQLite one row after the other,
//! for PostgreSQL all together, as arrays.

use std::fmt::Write;

/// A column of `given`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column(&'static str, Kind);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Int,
    Text,
    Blob,
}

impl Column {
    pub(crate) const fn int(name: &'static str) -> Self {
        Self(name, Kind::Int)
    }

    pub(crate) const fn text(name: &'static str) -> Self {
        Self(name, Kind::Text)
    }

    pub(crate) const fn blob(name: &'static str) -> Self {
        Self(name, Kind::Blob)
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.1
    }
}

fn named(columns: &[Column]) -> String {
    columns.iter().map(|column| column.0).collect::<Vec<_>>().join(", ")
}

/// The statement for one row at a time.
pub(super) fn one_given(columns: &[Column], sql: &str) -> String {
    let values: Vec<String> = (1..=columns.len()).map(|at| format!("?{at}")).collect();
    format!("WITH given({}) AS (SELECT {}) {sql}", named(columns), values.join(", "))
}

/// The statement for all rows at once.
pub(super) fn all_given(columns: &[Column], sql: &str) -> String {
    format!("WITH {} {sql}", table("given", columns, 1))
}

/// A statement that begins with tables of its own, for all rows of several of ours at once.
pub(super) fn all_of<'a>(tables: impl Iterator<Item = (&'a str, &'a [Column])>, sql: &str) -> String {
    let (mut with, mut first) = (String::from("WITH "), 1);
    for (name, columns) in tables {
        with.push_str(&table(name, columns, first));
        with.push(',');
        first += columns.len();
    }
    with + sql
}

/// Arrays as a table; the first of them is the statement's `first` value.
fn table(name: &str, columns: &[Column], first: usize) -> String {
    let array = |(column, at): (&Column, usize)| {
        let kind = match column.1 {
            Kind::Int => "bigint",
            Kind::Text => "text",
            Kind::Blob => "bytea",
        };
        format!("?{at}::{kind}[]")
    };
    let arrays: Vec<String> = columns.iter().zip(first..).map(array).collect();
    format!("{name}({}) AS (SELECT * FROM unnest({}))", named(columns), arrays.join(", "))
}

/// The statement as PostgreSQL is told.
pub(super) fn to_postgres(sql: &str) -> String {
    let mut told = String::with_capacity(sql.len() + 16);
    let mut numbered = 0;
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let taken = if first == '\'' {
            let end = rest[1..].find('\'').map_or(rest.len(), |at| at + 2);
            told.push_str(&rest[..end]);
            end
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |at| at + 2);
            if let Some(only) = rest[..end].strip_prefix("/*pg") {
                told.push_str(only.trim_end_matches("*/"));
            }
            end
        } else if first == '?' {
            let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
            numbered = if digits == 0 { numbered + 1 } else { rest[1..=digits].parse().unwrap_or(0) };
            // Writing to a String cannot fail.
            let _ = write!(told, "${numbered}");
            1 + digits
        } else if first.is_ascii_alphabetic() || first == '_' {
            word(rest, &mut told)
        } else {
            told.push(first);
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    told
}

/// Copies one word; gives how much of the text it was.
fn word(rest: &str, told: &mut String) -> usize {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = rest.bytes().take_while(is_letter).count();
    match &rest[..end] {
        "user" => told.push_str("\"user\""),
        "INDEXED" => {
            // INDEXED BY name
            let name = rest.find("BY ").map_or(end, |at| at + 3);
            return name + rest[name..].bytes().take_while(is_letter).count();
        }
        word => told.push_str(word),
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_turned_and_nothing_else() {
        let cases = [
            (
                "SELECT user FROM held_by_user WHERE user = ? AND x = ?",
                r#"SELECT "user" FROM held_by_user WHERE "user" = $1 AND x = $2"#,
            ),
            ("UPDATE a SET b = ?2, c = ?10 WHERE id = ?1", "UPDATE a SET b = $2, c = $10 WHERE id = $1"),
            ("SELECT 'user ?' FROM a -- user\nWHERE b", "SELECT 'user ?' FROM a \nWHERE b"),
            ("SELECT 1 FROM a INDEXED BY a_b WHERE c", "SELECT 1 FROM a  WHERE c"),
            ("SELECT 1 FROM a /*pg FOR UPDATE */ /* no */", "SELECT 1 FROM a  FOR UPDATE  "),
        ];
        for (written, told) in cases {
            assert_eq!(to_postgres(written), told);
        }
    }

    #[test]
    fn many_rows_are_one_table() {
        let columns = [Column::int("a"), Column::blob("user")];
        assert_eq!(
            one_given(&columns, "SELECT a FROM given"),
            "WITH given(a, user) AS (SELECT ?1, ?2) SELECT a FROM given"
        );
        assert_eq!(
            to_postgres(&all_given(&columns, "SELECT a FROM given")),
            r#"WITH given(a, "user") AS (SELECT * FROM unnest($1::bigint[], $2::bytea[])) SELECT a FROM given"#
        );
    }
}
