//! The home page.

use crate::Story;
use crate::browser::{Browser, Device};
use crate::people::is_sound;
use crate::site::Site;

#[tokio::test]
async fn the_home_page_lists_live_upcoming_and_ended_campaigns() -> Story {
    let site = Site::demo().await?;
    for (device, name) in [(Device::Phone, "home-phone"), (Device::Desktop, "home")] {
        let browser = Browser::open(&site, device, "en").await?;
        browser.goto("/").await?;
        for words in ["Live now", "Mechanical keyboard", "Coming up", "Trail running shoes", "Ended", "Vinyl"]
        {
            browser.see(words).await?;
        }
        is_sound(&browser).await?;
        browser.screenshot(name).await?;
        browser.dark(true).await?;
        is_sound(&browser).await?;
        browser.screenshot(&format!("{name}-dark")).await?;
    }
    Ok(())
}
