//! What the person does: press, fill in.

use fantoccini::elements::{Element, ElementRef};
use fantoccini::error::CmdError;
use serde_json::{Value, json};

use super::Browser;

/// By WebDriver's standard, how an element is named in an answer.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The first that can be seen.
const FIND: &str = "const [css] = arguments;
    const seen = (e) => e.getClientRects().length && e.checkVisibility({visibilityProperty: true});
    return [...document.querySelectorAll(css)].find(seen) ?? null;";

/// What can be pressed and says this; the one that says least besides, so that `Buy` is not `Buy all`.
const FIND_PRESSABLE: &str = "const [wanted] = arguments;
    const kinds = 'a[href], button, summary, input[type=submit], [role=button], [role=tab], [role=menuitem]';
    const says = (e) => (e.innerText || e.value || '').replace(/\\s+/g, ' ').trim();
    const usable = (e) => e.getClientRects().length && e.checkVisibility({visibilityProperty: true}) && !e.disabled;
    return [...document.querySelectorAll(kinds)]
        .filter((e) => usable(e) && says(e).includes(wanted))
        .sort((a, b) => says(a).length - says(b).length)[0] ?? null;";

/// Fields that have no place for a caret are set as the browser's own picker would; others are left to the keyboard.
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
    /// Presses the first visible element that matches, once nothing covers it and it is not disabled.
    pub(crate) async fn click(&self, css: &str) -> anyhow::Result<()> {
        self.press(&format!("clicking `{css}`"), FIND, css).await
    }

    /// Presses the button or link that says this.
    pub(crate) async fn click_text(&self, text: &str) -> anyhow::Result<()> {
        self.press(&format!("clicking what says \"{text}\""), FIND_PRESSABLE, text).await
    }

    async fn press(&self, what: &str, script: &str, argument: &str) -> anyhow::Result<()> {
        let press = async || {
            let Some(element) = self.find(script, argument).await? else { return Ok(None) };
            // WebDriver presses a disabled button without a word.
            if !element.is_enabled().await? {
                return Ok(None);
            }
            element.click().await.map(Some)
        };
        self.until(what, press).await
    }

    /// Makes this the value of a field, typed where a person would type it, chosen where they would choose.
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

    /// Waits until an element that matches can be seen.
    pub(crate) async fn wait_for(&self, css: &str) -> anyhow::Result<()> {
        let look = async || self.find(FIND, css).await.map(|found| found.map(drop));
        self.until(&format!("waiting for `{css}`"), look).await
    }

    /// What the first visible element that matches says.
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
