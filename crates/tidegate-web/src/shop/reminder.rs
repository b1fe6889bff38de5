//! A calendar file (iCalendar) that reminds of a sale's start.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use tidegate_core::CampaignId;
use tidegate_http::Site;
use tidegate_http::input::Id;

use super::Visitor;
use crate::page::PageError;

/// An event with an alarm five minutes before the start.
pub(crate) async fn reminder(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<CampaignId>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let view = site.app.storefront.sale(id).await?;
    let (id, t) = (site.app.print(id), visitor.page.t);
    let time = |moment: tidegate_core::Moment| {
        let text: String = moment.to_string().chars().filter(char::is_ascii_alphanumeric).take(15).collect();
        text + "Z"
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let text = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Tidegate//EN",
        "BEGIN:VEVENT",
        &format!("UID:{id}@tidegate"),
        &format!("DTSTAMP:{}", time(site.app.now())),
        &format!("DTSTART:{}", time(view.sale.window.starts_at)),
        &format!("SUMMARY:{}", escape_text(&t.reminder_summary.with(&view.item.name))),
        &format!("DESCRIPTION:{}", escape_text(&format!("{host}/sales/{id}"))),
        "BEGIN:VALARM",
        "TRIGGER:-PT5M",
        "ACTION:DISPLAY",
        &format!("DESCRIPTION:{}", escape_text(&view.item.name)),
        "END:VALARM",
        "END:VEVENT",
        "END:VCALENDAR",
        "",
    ]
    .join("\r\n");
    let file = format!("attachment; filename=\"sale-{id}.ics\"");
    let headers =
        [(header::CONTENT_TYPE, "text/calendar; charset=utf-8"), (header::CONTENT_DISPOSITION, &file)];
    Ok((headers, text).into_response())
}

/// Escapes text according to RFC 5545.
fn escape_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace(';', "\\;").replace(',', "\\,").replace('\n', "\\n").replace('\r', "")
}
