//! User input: clicking and filling in fields.

use fantoccini::elements::{Element, ElementRef};
use fantoccini::error::CmdError;
use serde_json::{Value, json};

use super::Browser;

/// The key of an element's id in a response, as the WebDriver standard defines it.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Finds the first visible element that matches.
const FIND: &str = "const [css] = arguments;
    const seen = (e) => e.getClientRects().length && e.checkVisibility({visibilityProperty: true});
    return [...document.querySelectorAll(css)].find(seen) ?? null;";

/// Finds the clickable element that contains this text; of several, the one with the shortest text, so that `Buy`
/// prefers `Buy` to `Buy all`.
const FIND_PRESSABLE: &str = "const [wanted] = arguments;
    const kinds = 'a[href], button, summary, input[type=submit], [role=button], [role=tab], [role=menuitem]';
    const says = (e) => (e.innerText || e.value || '').replace(/\\s+/g, ' ').trim();
    const usable = (e) => e.getClientRects().length && e.checkVisibility({visibilityProperty: true}) && !e.disabled;
    return [...document.querySelectorAll(kinds)]
        .filter((e) => usable(e) && says(e).includes(wanted))
        .sort((a, b) => says(a).length - says(b).length)[0] ?? null;";

/// Sets fields that have a picker, and returns false for text fields, which are filled with key strokes.
const PICK: &str = "const [field, value] = arguments;
    const picked = ['color', 'date', 'datetime-local', 'month', 'range', 'time', 'week'];
    if (field.tagName === 'SELECT') {
        const option = [...field.options].find((o) => o.value === value || o.label.trim() === value);
        if (!option) throw new Error('there is no such option: ' + value);
        option.selected = true;
    } else if (picked.includes(field.type)) {
        field.value = value;
    } else {
        return false;
    }
    field.dispatchEvent(new Event('input', {bubbles: true}));
    field.dispatchEvent(new Event('change', {bubbles: true}));
    return true;";

impl Browser {
    /// Clicks the first visible element that matches, once nothing covers it and it is enabled.
    pub(crate) async fn click(&self, css: &str) -> anyhow::Result<()> {
        self.press(&format!("clicking `{css}`"), FIND, css).await
    }

    /// Clicks the button or link with this text.
    pub(crate) async fn click_text(&self, text: &str) -> anyhow::Result<()> {
        self.press(&format!("clicking what says \"{text}\""), FIND_PRESSABLE, text).await
    }

    async fn press(&self, what: &str, script: &str, argument: &str) -> anyhow::Result<()> {
        let press = async || {
            let Some(element) = self.find(script, argument).await? else { return Ok(None) };
            // WebDriver clicks a disabled button without an error.
            if !element.is_enabled().await? {
                return Ok(None);
            }
            element.click().await.map(Some)
        };
        self.until(what, press).await
    }

    /// Sets the value of a field: types into text fields, selects options and dates.
    pub(crate) async fn fill(&self, css: &str, value: &str) -> anyhow::Result<()> {
        let fill = async || {
            let Some(field) = self.find(FIND, css).await? else { return Ok(None) };
            let arguments = vec![json!({ELEMENT: &*field.element_id()}), value.into()];
            if self.client.execute(PICK, arguments).await? != Value::Bool(true) {
                field.clear().await?;
                field.send_keys(value).await?;
            }
            Ok(Some(()))
        };
        self.until(&format!("filling in `{css}`"), fill).await
    }

    /// Waits until an element that matches is visible.
    pub(crate) async fn wait_for(&self, css: &str) -> anyhow::Result<()> {
        let look = async || self.find(FIND, css).await.map(|found| found.map(drop));
        self.until(&format!("waiting for `{css}`"), look).await
    }

    /// The text of the first visible element that matches.
    pub(crate) async fn text(&self, css: &str) -> anyhow::Result<String> {
        let read = async || match self.find(FIND, css).await? {
            Some(element) => element.text().await.map(Some),
            None => Ok(None),
        };
        self.until(&format!("reading `{css}`"), read).await
    }

    async fn find(&self, script: &str, argument: &str) -> Result<Option<Element>, CmdError> {
        let found = self.client.execute(script, vec![argument.into()]).await?;
        let id = found[ELEMENT].as_str().map(|id| ElementRef::from(id.to_owned()));
        Ok(id.map(|id| Element::from_element_id(self.client.clone(), id)))
    }
}
