//! CSV according to RFC 4180, as spreadsheets read it.
//!
//! Invariant: a cell with any content is read back as one cell and never evaluated as a formula.

use tidegate_core::Money;

/// Without it, spreadsheets do not recognize UTF-8.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

pub(crate) fn write_row<'a>(text: &mut String, cells: impl IntoIterator<Item = &'a str>) {
    for (at, cell) in cells.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_cell(text, cell);
    }
    text.push_str("\r\n");
}

fn write_cell(text: &mut String, cell: &str) {
    // An apostrophe keeps spreadsheets from evaluating the cell as a formula.
    let guard = if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if !cell.contains([',', '"', '\r', '\n']) {
        text.push_str(guard);
        text.push_str(cell);
        return;
    }
    text.push('"');
    text.push_str(guard);
    text.push_str(&cell.replace('"', "\"\""));
    text.push('"');
}

/// An amount as a decimal number, such as 199.00.
pub(crate) fn amount(money: Money) -> String {
    let digits = money.currency.digits();
    let scale = 10_u64.pow(u32::from(digits));
    let (sign, amount) = (if money.amount < 0 { "-" } else { "" }, money.amount.unsigned_abs());
    match digits {
        0 => format!("{sign}{amount}"),
        digits => format!("{sign}{}.{:0width$}", amount / scale, amount % scale, width = usize::from(digits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> String {
        let mut text = String::new();
        write_row(&mut text, cells.iter().copied());
        text
    }

    #[test]
    fn separators_are_quoted() {
        assert_eq!(row(&["a", "b c", ""]), "a,b c,\r\n");
        assert_eq!(
            row(&["a,b", "say \"hi\"", "two\nlines"]),
            "\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\"\r\n"
        );
        assert_eq!(row(&["灯，台灯"]), "灯，台灯\r\n");
    }

    #[test]
    fn no_cell_is_a_formula() {
        for start in ["=", "+", "-", "@", "\t"] {
            assert_eq!(row(&[&format!("{start}1")]), format!("'{start}1\r\n"));
        }
        assert_eq!(row(&["\r1"]), "\"'\r1\"\r\n");
        assert_eq!(row(&["=HYPERLINK(\"x\",1)"]), "\"'=HYPERLINK(\"\"x\"\",1)\"\r\n");
        assert_eq!(row(&["a=1", "1-2"]), "a=1,1-2\r\n");
    }

    #[test]
    fn amounts_have_the_digits_of_their_currency() {
        let written = |amount: i64, currency: &str| {
            super::amount(Money { amount, currency: currency.parse().unwrap() })
        };
        assert_eq!(written(1_234_567, "CNY"), "12345.67");
        assert_eq!(written(500, "JPY"), "500");
        assert_eq!(written(5, "KWD"), "0.005");
    }
}
