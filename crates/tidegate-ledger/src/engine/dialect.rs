//! Translates the ledger's SQL, written in SQLite's dialect, to PostgreSQL's.
//!
//! Statements use the common subset, except: `?` and `?1` become `$1`; the column `user`, a reserved word in
//! PostgreSQL, is quoted; `INDEXED BY` is dropped; the content of `/*pg … */` (locking clauses above all) is for
//! PostgreSQL only. Batches of parameters are the table `given`: SQLite runs the statement once per row, PostgreSQL
//! once for all rows, passed as arrays.

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

/// The statement with `given` as a single row of parameters.
pub(crate) fn for_one_row(columns: &[Column], sql: &str) -> String {
    let values: Vec<String> = (1..=columns.len()).map(|at| format!("?{at}")).collect();
    format!("WITH given({}) AS (SELECT {}) {sql}", named(columns), values.join(", "))
}

/// The statement with `given` as arrays of parameters.
pub(crate) fn for_all_rows(columns: &[Column], sql: &str) -> String {
    format!("WITH {} {sql}", table("given", columns, 1))
}

/// The statement, which begins with CTEs of its own, with several tables of parameters in front.
pub(crate) fn for_tables<'a>(tables: impl Iterator<Item = (&'a str, &'a [Column])>, sql: &str) -> String {
    let (mut with, mut first) = (String::from("WITH "), 1);
    for (name, columns) in tables {
        with.push_str(&table(name, columns, first));
        with.push(',');
        first += columns.len();
    }
    with + sql
}

/// Arrays as a CTE; they are the statement's parameters from number `first` on.
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

/// Translates a statement to PostgreSQL.
pub(crate) fn to_postgres(sql: &str) -> String {
    let mut translated = String::with_capacity(sql.len() + 16);
    let mut numbered = 0;
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let taken = if first == '\'' {
            let end = rest[1..].find('\'').map_or(rest.len(), |at| at + 2);
            translated.push_str(&rest[..end]);
            end
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |at| at + 2);
            if let Some(only) = rest[..end].strip_prefix("/*pg") {
                translated.push_str(only.trim_end_matches("*/"));
            }
            end
        } else if first == '?' {
            let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
            numbered = if digits == 0 { numbered + 1 } else { rest[1..=digits].parse().unwrap_or(0) };
            // Writing to a String cannot fail.
            let _ = write!(translated, "${numbered}");
            1 + digits
        } else if first.is_ascii_alphabetic() || first == '_' {
            word(rest, &mut translated)
        } else {
            translated.push(first);
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    translated
}

/// Translates one identifier or keyword; returns the number of bytes consumed.
fn word(rest: &str, translated: &mut String) -> usize {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = rest.bytes().take_while(is_letter).count();
    match &rest[..end] {
        "user" => translated.push_str("\"user\""),
        "INDEXED" => {
            // INDEXED BY name
            let name = rest.find("BY ").map_or(end, |at| at + 3);
            return name + rest[name..].bytes().take_while(is_letter).count();
        }
        word => translated.push_str(word),
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
        for (written, translated) in cases {
            assert_eq!(to_postgres(written), translated);
        }
    }

    #[test]
    fn many_rows_are_one_table() {
        let columns = [Column::int("a"), Column::blob("user")];
        assert_eq!(
            for_one_row(&columns, "SELECT a FROM given"),
            "WITH given(a, user) AS (SELECT ?1, ?2) SELECT a FROM given"
        );
        assert_eq!(
            to_postgres(&for_all_rows(&columns, "SELECT a FROM given")),
            r#"WITH given(a, "user") AS (SELECT * FROM unnest($1::bigint[], $2::bytea[])) SELECT a FROM given"#
        );
    }
}
