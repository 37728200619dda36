//! One page of a browser, driven by the Chrome DevTools Protocol.
//!
//! A [`Page`] is one tab: it sends methods to its session and takes the events that arrived since the last call. A
//! script is installed before the page's own scripts run; it records violations of the content security policy and
//! the moment at which the charts are drawn. [`Page::evaluate`] returns the value of an expression and panics if it
//! throws. Waits are bounded. A dropped page closes its tab. Start with [`Page::load`] and [`Page::evaluate`].

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Browser;
use super::pipe::Event;
use crate::wait;

/// The theme that a reader's system requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Theme {
    /// As in the media feature `prefers-color-scheme`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// The screen of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Colours of the screen.
    pub theme: Theme,
    /// CSS pixels.
    pub width: u32,
}

impl Screen {
    /// Returns `light-1600`.
    pub fn name(self) -> String {
        format!("{}-{}", self.theme.name(), self.width)
    }
}

/// The height of every screen, CSS pixels.
const SCREEN_HEIGHT: u32 = 900;
/// A screenshot of a longer page becomes several files: no browser paints much more at once.
const SCREENSHOT_HEIGHT: f64 = 8_000.0;

/// Listens before any script of the page runs: to what the page's policy stops, and to its being drawn.
const LISTEN: &str = "
    window.stopped = [];
    addEventListener('securitypolicyviolation', (event) => {
      stopped.push(`${event.effectiveDirective} stops ${event.blockedURI || event.sourceFile} ${event.sample}`);
    });
    new MutationObserver((changes, observer) => {
      if (!document.documentElement?.dataset.drawn) return;
      window.drawnAt = performance.now();
      observer.disconnect();
    }).observe(document, { attributes: true, subtree: true, attributeFilter: ['data-drawn'] });
";

/// A tab.
#[derive(Debug)]
pub struct Page<'a> {
    browser: &'a Browser,
    target: String,
    session: String,
}

impl<'a> Page<'a> {
    pub(super) fn open(browser: &'a Browser) -> Self {
        let text = |value: &Value| value.as_str().expect("the protocol's text").to_owned();
        let created = browser.call("", "Target.createTarget", &json!({ "url": "about:blank" }));
        let target = text(&created["targetId"]);
        let attached = json!({ "targetId": target, "flatten": true });
        let attached = browser.call("", "Target.attachToTarget", &attached);
        let page = Self { browser, target, session: text(&attached["sessionId"]) };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": LISTEN }));
        page
    }

    /// Calls a method of the protocol.
    pub fn call(&self, method: &str, parameters: &Value) -> Value {
        self.browser.call(&self.session, method, parameters)
    }

    /// Takes the reports since the last call.
    pub fn take_events(&self) -> Vec<Event> {
        self.browser.pipe.borrow_mut().take_events(&self.session)
    }

    /// Sets the screen from now on.
    pub fn show_on(&self, screen: Screen) {
        let size = json!({
            "width": screen.width, "height": SCREEN_HEIGHT, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!({ "name": "prefers-color-scheme", "value": screen.theme.name() });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [scheme] }));
    }

    /// Reports whether scripts of the page run.
    pub fn allow_scripts(&self, allowed: bool) {
        self.call("Emulation.setScriptExecutionDisabled", &json!({ "value": !allowed }));
    }

    /// Goes to a URL and waits until it has loaded.
    pub fn load(&self, url: &str) {
        let answer = self.call("Page.navigate", &json!({ "url": url }));
        assert_eq!(answer.get("errorText"), None, "{url}");
        wait::until(url, || {
            let loaded = self.evaluate("document.readyState === 'complete' && location.href");
            (loaded.as_str() == Some(url)).then_some(())
        });
    }

    /// Goes to a file, and waits until it has loaded.
    pub fn load_file(&self, path: &Path) {
        self.load(&file_url(path));
    }

    /// Waits until a page of a report has drawn its charts.
    pub fn wait_until_drawn(&self) {
        self.wait_for("all charts to be drawn", "document.documentElement.dataset.drawn === 'yes'");
    }

    /// Waits until an expression is true.
    pub fn wait_for(&self, what: &str, expression: &str) {
        let is_true =
            wait::within(wait::PATIENCE, &mut || (self.evaluate(expression) == true).then_some(()));
        if is_true.is_none() {
            panic!("waited in vain for {what}: {:#?}", self.take_events());
        }
    }

    /// Returns the value of an expression, which may be a promise.
    pub fn evaluate(&self, expression: &str) -> Value {
        let call = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", &call);
        if let Some(thrown) = answer.get("exceptionDetails") {
            let shown: String = expression.chars().take(200).collect();
            panic!("{shown}: {thrown:#}");
        }
        answer["result"]["value"].take()
    }

    /// Returns the list of texts that an expression gives.
    pub fn texts(&self, expression: &str) -> Vec<String> {
        let value = self.evaluate(expression);
        let list = serde_json::from_value(value.clone());
        list.unwrap_or_else(|error| panic!("not a list of texts ({error}): {value}"))
    }

    /// Presses a key: `Tab`, `ArrowRight`, `Escape`, …
    pub fn press(&self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => panic!("no code for {other}"),
        };
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Writes what it shows, from its top to its end, to `FOLDER/NAME.png`; of a long page there are `NAME-2.png` and
    /// so on.
    pub fn screenshot(&self, folder: &Path, name: &str) {
        let metrics = self.call("Page.getLayoutMetrics", &json!({}));
        let number = |value: &Value| value.as_f64().expect("a length");
        let size = &metrics["cssContentSize"];
        let (width, height) = (number(&size["width"]), number(&size["height"]));
        fs::create_dir_all(folder).expect("the output folder is writable");
        let parts = (height / SCREENSHOT_HEIGHT).ceil().max(1.0) as u32;
        for part in 0..parts {
            let top = f64::from(part) * SCREENSHOT_HEIGHT;
            let clip = json!({
                "x": 0, "y": top, "width": width, "height": (height - top).min(SCREENSHOT_HEIGHT), "scale": 1,
            });
            let how = json!({ "captureBeyondViewport": true, "clip": clip });
            let image = self.call("Page.captureScreenshot", &how);
            let suffix = if part == 0 { String::new() } else { format!("-{}", part + 1) };
            let path = folder.join(format!("{name}{suffix}.png"));
            fs::write(path, bytes_of(&image["data"])).expect("the output folder is writable");
        }
    }

    /// Returns the page on paper, as PDF; with backgrounds, so that a dark one is seen.
    pub fn print(&self) -> Vec<u8> {
        let how = json!({ "preferCSSPageSize": true, "printBackground": true });
        bytes_of(&self.call("Page.printToPDF", &how)["data"])
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        // A browser that is gone has no pages.
        let target = json!({ "targetId": self.target });
        let _ = self.browser.try_call("", "Target.closeTarget", &target);
    }
}

/// Returns the URL of a file; names of the tests' files need no escapes.
pub(super) fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn bytes_of(base64: &Value) -> Vec<u8> {
    let text = base64.as_str().expect("the protocol's text");
    STANDARD.decode(text).expect("the protocol's bytes")
}
