//! Parts of list pages: ids in paths, filters, links to the next page.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tidegate_core::public_id::Public;
use tidegate_http::Site;
use tidegate_http::input::Id;

use crate::page::PageError;

/// Extractor: the public id in a page's path. An invalid id is answered with the "not found" page.
pub(super) struct PathId<T>(pub(super) T);

impl<T: Public + Send> FromRequestParts<Site> for PathId<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, PageError> {
        Ok(Self(Id::<T>::from_request_parts(parts, site).await?.0))
    }
}

/// An `<option>` of a select.
#[derive(Clone, Debug)]
pub(super) struct SelectOption {
    pub(super) value: String,
    pub(super) label: String,
    pub(super) selected: bool,
}

/// A path with a query; empty values are left out.
pub(super) fn url_with_query(path: &str, query: &[(&str, &str)]) -> String {
    let given: Vec<_> = query.iter().filter(|(_, value)| !value.is_empty()).collect();
    match serde_urlencoded::to_string(given) {
        Ok(query) if !query.is_empty() => format!("{path}?{query}"),
        _ => path.to_owned(),
    }
}

/// The cursor of the next page; `None` if this page is not full.
pub(super) fn next_cursor<T>(rows: &[T], limit: u32, cursor: impl Fn(&T) -> String) -> Option<String> {
    rows.last().filter(|_| rows.len() == limit as usize).map(cursor)
}

/// The trimmed text; `None` if it is empty.
pub(super) fn non_empty(text: String) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub(super) fn not_found() -> PageError {
    tidegate_core::Rejection::NotFound.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_are_left_out_of_a_query() {
        assert_eq!(url_with_query("/a", &[("x", ""), ("y", "1 2")]), "/a?y=1+2");
        assert_eq!(url_with_query("/a", &[("x", "")]), "/a");
    }

    #[test]
    fn only_a_full_page_has_a_next_page() {
        assert_eq!(next_cursor(&[1, 2], 2, i32::to_string), Some("2".into()));
        assert_eq!(next_cursor(&[1], 2, i32::to_string), None);
    }
}
