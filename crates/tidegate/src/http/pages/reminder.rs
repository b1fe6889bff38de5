//! A reminder of a sale's start, as a calendar takes it.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use tidegate_core::CampaignId;

use super::super::Site;
use super::super::input::Id;
use super::{Trouble, Visit};

/// A calendar entry with an alarm five minutes before the start.
pub(super) async fn reminder(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<CampaignId>,
    headers: HeaderMap,
) -> Result<Response, Trouble> {
    let view = site.app.sale(id).await?;
    let (id, w) = (site.app.print(id), visit.page.w);
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
        &format!("SUMMARY:{}", in_calendar(&w.reminder_summary.with(&view.item.name))),
        &format!("DESCRIPTION:{}", in_calendar(&format!("{host}/sales/{id}"))),
        "BEGIN:VALARM",
        "TRIGGER:-PT5M",
        "ACTION:DISPLAY",
        &format!("DESCRIPTION:{}", in_calendar(&view.item.name)),
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

/// Text as calendars read it.
fn in_calendar(text: &str) -> String {
    text.replace('\\', "\\\\").replace(';', "\\;").replace(',', "\\,").replace('\n', "\\n").replace('\r', "")
}
