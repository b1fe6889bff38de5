//! The home page.

use crate::Story;
use crate::browser::{Browser, Device};
use crate::site::Site;

#[tokio::test]
async fn home_page_is_accessible() -> Story {
    let site = Site::start().await?;
    let browser = Browser::open(&site, Device::Phone, "en").await?;
    browser.goto("/").await?;
    browser.see("Tidegate is running").await?;
    for dark in [false, true] {
        browser.dark(dark).await?;
        browser.axe().await?;
    }
    browser.no_sideways_scroll().await?;
    browser.screenshot("home-phone").await?;
    assert_eq!(browser.errors().await?, Vec::<String>::new());
    Ok(())
}
