//! A report's file looked at from top to end, as tests and people do: on a screen, on paper, without scripts.

use std::fs;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::Path;

use super::page::{Page, Screen, Theme, file_url};
use super::{Browser, checks, content, paper};
use crate::recorder::Recorder;
use crate::runs::Run;
use crate::wait;

/// The largest file that may be sent around.
const BYTES_MAX: u64 = 2_000_000;
/// The narrowest screen, CSS pixels: one of 1280 at a zoom of 400 %.
const NARROWEST: u32 = 320;
/// Widths of screens from a phone's to a large one's, CSS pixels.
const WIDTHS: RangeInclusive<u32> = 360..=2_000;
const WIDTH_STEP: usize = 40;

/// As Jenkins sends the files of a build.
const CI_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n\
    Content-Security-Policy: sandbox; default-src 'none'; img-src 'self'; style-src 'self'\r\n\r\n";

/// A report's file.
#[derive(Clone, Copy, Debug)]
pub struct ReportFile<'a> {
    /// The HTML file.
    pub path: &'a Path,
    /// Name of the screenshots, without the screen.
    pub name: &'a str,
    /// Directory for screenshots and prints.
    pub output: &'a Path,
}

impl ReportFile<'_> {
    /// Shows it on a screen, with its charts drawn.
    pub fn show<'b>(&self, browser: &'b Browser, screen: Screen) -> Page<'b> {
        let page = browser.page();
        page.show_on(screen);
        page.load_file(self.path);
        page.wait_until_drawn();
        page
    }

    /// Returns the faults on a screen: all that colours and width may change.
    pub fn check_on(&self, browser: &Browser, screen: Screen) -> Vec<String> {
        let page = self.show(browser, screen);
        named(self.look(&page, screen), self.name, &screen.name())
    }

    /// Returns the faults, with the findings of an audit, and the differences between the page and its archive.
    pub fn check_all_on(&self, browser: &Browser, screen: Screen, run: &Run) -> Vec<String> {
        let page = self.show(browser, screen);
        let mut wrong = checks::accessibility(&page);
        wrong.extend(content::differs(&page, run));
        wrong.extend(self.look(&page, screen));
        named(wrong, self.name, &screen.name())
    }

    fn look(&self, page: &Page<'_>, screen: Screen) -> Vec<String> {
        let mut wrong = checks::charts(page);
        wrong.extend(checks::overlaps(page));
        wrong.extend(checks::width(page));
        wrong.extend(checks::contrasts(page));
        page.screenshot(self.output, &format!("{}-{}", self.name, screen.name()));
        wrong.extend(checks::reports(page, &[&file_url(self.path)]));
        wrong
    }

    /// Returns the faults on screens of every width: a figure without its drawing, a narrow column, a page wider than
    /// its screen.
    pub fn check_widths(&self, browser: &Browser) -> Vec<String> {
        let page = self.show(browser, Screen { theme: Theme::Light, width: *WIDTHS.start() });
        let mut wrong = Vec::new();
        for width in WIDTHS.step_by(WIDTH_STEP) {
            let screen = Screen { theme: Theme::Light, width };
            page.show_on(screen);
            // The page draws again when its width has been the same for a moment.
            let mut last = Vec::new();
            let settled = wait::within(wait::PATIENCE, &mut || {
                last = checks::at_width(&page);
                last.is_empty().then_some(())
            });
            if settled.is_none() {
                wrong.extend(named(last, self.name, &screen.name()));
                break;
            }
        }
        wrong
    }

    /// Returns the faults on the narrowest screen, by keyboard, and in size.
    pub fn check_narrow(&self, browser: &Browser) -> Vec<String> {
        let page = self.show(browser, Screen { theme: Theme::Light, width: NARROWEST });
        let mut wrong = checks::width(&page);
        wrong.extend(checks::keyboard(&page));
        wrong.extend(checks::reports(&page, &[&file_url(self.path)]));
        let bytes = fs::metadata(self.path).expect("a report's file").len();
        if bytes > BYTES_MAX {
            wrong.push(format!("{bytes} B, more than {BYTES_MAX}"));
        }
        named(wrong, self.name, "narrow")
    }

    /// Returns the faults on paper, also for a reader whose screen is dark: a sheet without text, an axis without its
    /// title, a dark sheet.
    pub fn check_print(&self, browser: &Browser) -> Vec<String> {
        let page = self.show(browser, Screen { theme: Theme::Dark, width: 400 });
        let titles = checks::axis_titles(&page);
        let path = self.output.join(format!("{}.pdf", self.name));
        fs::create_dir_all(self.output).expect("the output folder is writable");
        fs::write(&path, page.print()).expect("the output folder is writable");
        let mut wrong = paper::lacks(&paper::sheets(&path), &titles);
        wrong.extend(paper::dark_sheets(&path));
        named(wrong, self.name, "paper")
    }

    /// Returns the parts that cannot be read without scripts, nor under the policy with which a CI server shows its
    /// files: the answer, and every row of the tables.
    pub fn check_without_scripts(&self, browser: &Browser) -> Vec<String> {
        let page = self.show(browser, Screen { theme: Theme::Light, width: 1_600 });
        let with = checks::tables(&page);
        page.allow_scripts(false);
        let file = fs::read(self.path).expect("a report's file");
        let answer = [CI_HEAD.as_bytes(), &file].concat();
        // Leaked, once per call: the server's answers live as long as it may.
        let server = Recorder::start_with(Ipv4Addr::LOCALHOST.into(), Some(answer.leak()));
        page.load(&server.url());
        let without = checks::tables(&page);
        let mut wrong = Vec::new();
        if without.is_empty() || with != without {
            wrong.push(format!("tables with scripts {with:?}, without {without:?}"));
        }
        let answer = page.evaluate("document.querySelector('h1')?.innerText ?? ''");
        if answer.as_str().is_none_or(str::is_empty) {
            wrong.push("there is no answer".to_owned());
        }
        named(wrong, self.name, "without scripts")
    }
}

fn named(wrong: Vec<String>, name: &str, screen: &str) -> Vec<String> {
    wrong.into_iter().map(|what| format!("{name}, {screen}: {what}")).collect()
}
