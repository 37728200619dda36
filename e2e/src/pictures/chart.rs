//! A chart of a report page as SVG that stands alone.

use serde_json::json;

use crate::browser::Page;

const PROGRAM: &str = include_str!("chart.js");

/// Returns the first drawing of the chart `name` as it is shown, with `title` above and `about` below.
pub fn svg(page: &Page<'_>, name: &str, title: &str, about: &str) -> String {
    let selector = format!("figure[data-chart=\"{name}\"] svg[role=\"img\"]");
    let call = format!("standalone({}, {}, {})", json!(selector), json!(title), json!(about));
    let drawn = page.evaluate(&format!("(() => {{ {PROGRAM}\nreturn {call}; }})()"));
    drawn.as_str().expect("an SVG as text").to_owned()
}
