//! A printed page, as PDF: its text and how light it is.

use std::path::Path;
use std::process::{Command, Output};

use crate::program;

/// A sheet full of marks and heat maps has three quarters of white, one of the dark theme a fifth.
const LIGHT_MIN: f64 = 0.5;
/// Enough to tell light from dark.
const DOTS_PER_INCH: &str = "10";

/// Returns the text of each sheet of a PDF.
pub fn sheets(pdf: &Path) -> Vec<String> {
    let text = run("pdftotext", &[pdf.as_os_str().to_str().expect("a plain name"), "-"]).stdout;
    let text = String::from_utf8(text).expect("pdftotext writes UTF-8");
    // Each sheet ends with a form feed.
    text.strip_suffix('\u{c}').unwrap_or(&text).split('\u{c}').map(str::to_owned).collect()
}

/// Returns the parts that are missing on paper: text on a sheet, or one of the titles on all of them.
pub fn lacks(sheets: &[String], titles: &[String]) -> Vec<String> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let whole = words(&sheets.join(" "));
    let empty = sheets.iter().enumerate().filter(|(_, sheet)| words(sheet).is_empty());
    let empty = empty.map(|(index, _)| format!("sheet {} has no text", index + 1));
    let absent = titles.iter().filter(|title| !whole.contains(&words(title)));
    empty.chain(absent.map(|title| format!("no {title:?}"))).collect()
}

/// Returns the sheets of a PDF that are not light.
pub fn dark_sheets(pdf: &Path) -> Vec<String> {
    let path = pdf.as_os_str().to_str().expect("a plain name");
    let images = run("pdftoppm", &["-r", DOTS_PER_INCH, "-gray", path]).stdout;
    let dark = lightness(&images).into_iter().enumerate().filter(|(_, light)| *light < LIGHT_MIN);
    dark.map(|(index, light)| format!("sheet {} is dark: {light:.2} of white", index + 1)).collect()
}

/// Returns the mean of each image of a row of binary PGM files, of which 1 is white.
fn lightness(mut images: &[u8]) -> Vec<f64> {
    let mut found = Vec::new();
    while !images.is_empty() {
        // "P5", width and height, and the white of 255, a line each.
        let lines: Vec<&[u8]> = images.splitn(4, |byte| *byte == b'\n').collect();
        let [b"P5", size, b"255", rest] = lines[..] else { panic!("not a PGM file") };
        let size = String::from_utf8_lossy(size);
        let pixels: usize =
            size.split(' ').map(|side| side.parse::<usize>().expect("a size")).product();
        let (image, others) = rest.split_at(pixels);
        let sum: u64 = image.iter().map(|pixel| u64::from(*pixel)).sum();
        found.push(sum as f64 / pixels as f64 / 255.0);
        images = others;
    }
    found
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program::installed(program)).args(arguments).output();
    let output = output.expect("an installed program can be run");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_on_paper_is_named() {
        let sheets = ["latency,\n ms (log)\n".to_owned(), " \n".to_owned()];
        let titles = ["latency, ms (log)", "time, s"].map(str::to_owned);
        assert_eq!(lacks(&sheets, &titles), ["sheet 2 has no text", "no \"time, s\""]);
    }

    #[test]
    fn images_are_told_apart_by_their_light() {
        let images = b"P5\n2 1\n255\n\xff\xffP5\n1 2\n255\n\x00\xff";
        assert_eq!(lightness(images), [1.0, 0.5]);
    }
}
