//! vegeta's `http` and `json` target formats, read the way vegeta reads them.
//!
//! More lenient than vegeta in two places: a comment or header may come right before the next request line, and a JSON
//! header may be one string. Stricter in one: a JSON field that vegeta's schema does not know is an error, since vegeta
//! would silently send something else than meant. Files of bodies are read through a function that the caller gives;
//! nothing here does I/O.

use std::collections::BTreeMap;
use std::io;

use base64::Engine;
use serde::Deserialize;
use thiserror::Error;

use super::{BODY_BYTES_MAX, Body, Target, TargetUrl, UrlError, is_method, parse_header, url};
use crate::lines::{LineProblem, lines};

/// Most targets in one source.
pub const TARGETS_MAX: usize = 1_000_000;

/// The notation of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `METHOD URL` lines, each followed by header lines and a line `@FILE` for the body.
    Http,
    /// One object per line: `method`, `url`, `header` (arrays of values), `body` (base64).
    Json,
}

/// Why a source of targets was refused. One line that names the place and the fix.
#[derive(Debug, Error)]
pub enum TargetsError {
    /// There is no target in it.
    #[error("{name}: no targets; write one per line, like GET http://host/path")]
    Empty {
        /// The source's name.
        name: String,
    },
    /// One line is wrong.
    #[error("{name}, line {line}: {problem}")]
    Line {
        /// The source's name.
        name: String,
        /// The line's number, from 1.
        line: usize,
        /// The fault, and the correct form.
        problem: Problem,
    },
}

/// A fault of a line.
#[derive(Debug, Error)]
pub enum Problem {
    /// Not text.
    #[error(transparent)]
    NotText(#[from] LineProblem),
    /// A line that should begin a target and does not.
    #[error("{0:?} is not METHOD URL; begin a target like GET http://host/path, then its headers")]
    NotRequestLine(String),
    /// No HTTP method.
    #[error("{0:?} is not an HTTP method; write it in capitals, like GET or POST")]
    Method(String),
    /// No usable URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A header that may not be sent. Its value is not shown: it may be a secret.
    #[error(
        "the header that begins with {0:?} is malformed; write Name: value, on one line and \
             without control characters"
    )]
    Header(String),
    /// The file of a body cannot be read.
    #[error("body file {path:?}: {error}; correct the path after @")]
    BodyFile {
        /// The path as written.
        path: String,
        /// Why it cannot be read.
        error: io::Error,
    },
    /// The body is not base64.
    #[error("the body is not base64 ({0}); encode it like jq's @base64 does")]
    Base64(base64::DecodeError),
    /// A body passes the bound.
    #[error("the body has {bytes} bytes; at most {BODY_BYTES_MAX} (1 GiB) can be sent")]
    BodyTooLarge {
        /// The size of this body.
        bytes: usize,
    },
    /// The line is no JSON object of the right shape.
    #[error(
        "not a JSON target: {what} (column {column}); write one object per line, like \
             {{\"method\":\"GET\",\"url\":\"http://host/\"}}"
    )]
    Json {
        /// The error of the JSON reader.
        what: String,
        /// Position in the line, from 1.
        column: usize,
    },
    /// More targets than are accepted.
    #[error("more than {TARGETS_MAX} targets; split the file")]
    TooMany,
}

/// Returns [`Format::Json`] if the first line that is not blank begins with `{`, else [`Format::Http`].
pub fn detect(text: &[u8]) -> Format {
    let first = lines(text).ok().and_then(|mut lines| lines.find(|line| !line.is_blank()));
    match first {
        Some(line) if line.text.trim_start().starts_with('{') => Format::Json,
        _ => Format::Http,
    }
}

/// Reads every target of `text`, which errors call `source`. `defaults` are headers that each
/// target gets unless it has one of that name; `read_file` reads the file of a body.
pub fn parse(
    format: Format,
    source: &str,
    text: &[u8],
    defaults: &[(String, String)],
    read_file: &mut dyn FnMut(&str) -> io::Result<Body>,
) -> Result<Vec<Target>, TargetsError> {
    let mut collected = Collected { targets: Vec::new(), targets_max: TARGETS_MAX };
    let mut reader = HttpReader { open: None, read_file };
    let at_line = |line, problem| TargetsError::Line { name: source.to_owned(), line, problem };
    let mut last = 0;
    for line in lines(text).map_err(|error| at_line(error.line, error.problem.into()))? {
        last = line.number;
        let read = match format {
            Format::Http => reader.handle_line(line.text.trim(), &mut collected),
            Format::Json if line.is_blank() => Ok(()),
            Format::Json => json_target(line.text.trim()).and_then(|one| collected.push(one)),
        };
        read.map_err(|problem| at_line(last, problem))?;
    }
    if let Some(draft) = reader.open.take() {
        collected.push(draft.finish()).map_err(|problem| at_line(last, problem))?;
    }
    if collected.targets.is_empty() {
        return Err(TargetsError::Empty { name: source.to_owned() });
    }
    for target in &mut collected.targets {
        add_defaults(target, defaults);
    }
    Ok(collected.targets)
}

fn add_defaults(target: &mut Target, defaults: &[(String, String)]) {
    let own = target.headers.len();
    for (name, value) in defaults {
        let present = |(own, _): &(String, String)| own.eq_ignore_ascii_case(name);
        if !target.headers.iter().take(own).any(present) {
            target.headers.push((name.clone(), value.clone()));
        }
    }
}

/// The targets so far, within their bounds.
struct Collected {
    /// targets.len() <= targets_max
    targets: Vec<Target>,
    targets_max: usize,
}

impl Collected {
    fn push(&mut self, target: Target) -> Result<(), Problem> {
        if self.targets.len() >= self.targets_max {
            return Err(Problem::TooMany);
        }
        let bytes = target.body.len();
        if bytes > BODY_BYTES_MAX {
            return Err(Problem::BodyTooLarge { bytes });
        }
        self.targets.push(target);
        Ok(())
    }
}

/// Reads the `http` format line by line.
struct HttpReader<'a> {
    /// The target whose headers are being read.
    open: Option<Draft>,
    read_file: &'a mut dyn FnMut(&str) -> io::Result<Body>,
}

impl HttpReader<'_> {
    fn handle_line(&mut self, line: &str, collected: &mut Collected) -> Result<(), Problem> {
        if line.starts_with('#') {
            return Ok(());
        }
        let Some(Draft { target, .. }) = &mut self.open else {
            if !line.is_empty() {
                self.open = Some(request_line(line)?);
            }
            return Ok(());
        };
        if let Some(path) = line.strip_prefix('@') {
            target.body = (self.read_file)(path)
                .map_err(|error| Problem::BodyFile { path: path.to_owned(), error })?;
        } else if !line.is_empty() && !is_request_line(line) {
            target.headers.push(http_header(line)?);
            return Ok(());
        }
        // The body, an empty line or the next request line ends a target.
        if let Some(draft) = self.open.take() {
            collected.push(draft.finish())?;
        }
        if is_request_line(line) {
            self.open = Some(request_line(line)?);
        }
        Ok(())
    }
}

/// vegeta's rule: a word in capitals, then white space. `NAME : value` is a header all the same.
fn is_request_line(line: &str) -> bool {
    line.split_once(char::is_whitespace).is_some_and(|(word, rest)| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_uppercase())
            && !rest.trim_start().starts_with(':')
    })
}

fn request_line(line: &str) -> Result<Draft, Problem> {
    let Some((method, url)) = line.split_once(char::is_whitespace) else {
        return Err(Problem::NotRequestLine(shown(line)));
    };
    // Anything but a method here is most often a header or a body that lost its target.
    if method.contains(':') || method.starts_with('@') {
        return Err(Problem::NotRequestLine(shown(method)));
    }
    if !is_method(method) || method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Err(Problem::Method(shown(method)));
    }
    Draft::new(method, url.trim())
}

fn http_header(line: &str) -> Result<(String, String), Problem> {
    parse_header(line)
        .filter(|(_, value)| !value.is_empty())
        .ok_or_else(|| Problem::Header(shown(line.split([':', ' ']).next().unwrap_or(line))))
}

/// A target whose headers and body may still come.
struct Draft {
    target: Target,
    /// Credentials from `user:password@` in the URL; a written `Authorization` header wins.
    authorization: Option<String>,
}

impl Draft {
    fn new(method: &str, url: &str) -> Result<Self, Problem> {
        let (authorization, url) = match split_user(url) {
            None => (None, url.parse::<TargetUrl>()?),
            Some((user, url)) => {
                let mut credentials = url::percent_decoded(user.as_bytes());
                if !user.contains(':') {
                    // An empty password, as basic authentication wants.
                    credentials.push(b':');
                }
                let token = base64::engine::general_purpose::STANDARD.encode(credentials);
                (Some(format!("Basic {token}")), url.parse::<TargetUrl>()?)
            }
        };
        let method = method.to_owned();
        let target = Target {
            method,
            url,
            headers: Vec::new(),
            body: Body::default(),
            publish: None,
            script: None,
            websocket: None,
        };
        Ok(Self { target, authorization })
    }

    fn finish(mut self) -> Target {
        if let Some(authorization) = self.authorization {
            add_defaults(&mut self.target, &[("Authorization".to_owned(), authorization)]);
        }
        self.target
    }
}

/// Takes `user:password@` out of a URL.
fn split_user(url: &str) -> Option<(&str, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    let after = rest.strip_prefix(user)?.strip_prefix('@')?;
    Some((user, format!("{scheme}://{after}")))
}

/// Returns at most 60 characters of the text, without credentials if it is a URL.
fn shown(text: &str) -> String {
    let text = url::shown(text);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonTarget {
    method: String,
    url: String,
    body: Option<String>,
    header: Option<BTreeMap<String, Option<Values>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Values {
    Many(Vec<String>),
    One(String),
}

fn json_target(line: &str) -> Result<Target, Problem> {
    let json: JsonTarget = serde_json::from_str(line).map_err(|error| json_problem(&error))?;
    if !is_method(&json.method) {
        return Err(Problem::Method(shown(&json.method)));
    }
    let mut draft = Draft::new(&json.method, &json.url)?;
    for (name, values) in json.header.unwrap_or_default() {
        let values = match values {
            None => Vec::new(),
            Some(Values::One(value)) => vec![value],
            Some(Values::Many(values)) => values,
        };
        for value in values {
            let header = Some(&name)
                .filter(|name| !name.contains(':'))
                .and_then(|name| parse_header(&format!("{name}:{value}")))
                .ok_or_else(|| Problem::Header(shown(&name)))?;
            draft.target.headers.push(header);
        }
    }
    let body = json.body.unwrap_or_default();
    draft.target.body =
        base64::engine::general_purpose::STANDARD.decode(body).map_err(Problem::Base64)?.into();
    Ok(draft.finish())
}

/// Takes serde's `at line 1 column 2` off: the line is not 1.
fn json_problem(error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    let what = what.chars().map(|char| if char.is_control() { ' ' } else { char }).take(120);
    Problem::Json { what: what.collect(), column: error.column() }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn no_file(_: &str) -> io::Result<Body> {
        Err(io::Error::from(io::ErrorKind::NotFound))
    }

    fn read(format: Format, text: &str) -> Result<Vec<Target>, TargetsError> {
        let mut file = |path: &str| match path {
            "/body" | "body with spaces.txt" => Ok(path.into()),
            _ => no_file(path),
        };
        parse(format, "t", text.as_bytes(), &[], &mut file)
    }

    /// Each target as `METHOD URL|name: value|…|@body`.
    fn flat(format: Format, text: &str) -> Vec<String> {
        let flat = |target: &Target| {
            let mut flat = format!("{} {}", target.method, target.url);
            for (name, value) in &target.headers {
                flat.push_str(&format!("|{name}: {value}"));
            }
            if !target.body.is_empty() {
                flat.push_str(&format!("|@{}", String::from_utf8_lossy(&target.body)));
            }
            flat
        };
        read(format, text).expect(text).iter().map(flat).collect()
    }

    #[test]
    fn http_targets() {
        for (text, expected) in [
            ("GET http://a/", &["GET http://a/"][..]),
            ("GET http://a/\nHEAD http://b\n", &["GET http://a/", "HEAD http://b/"]),
            ("\u{feff}GET http://a/\r\nX: y\r\n", &["GET http://a/|X: y"]),
            (
                "# c\n\n  GET   http://a/\n\tX : y\n  # c\nX:z\n\n\nPUT http://b/",
                &["GET http://a/|X: y|X: z", "PUT http://b/"],
            ),
            ("GET http://a/\n# c\nGET http://b/", &["GET http://a/", "GET http://b/"]),
            ("GET http://a/\nX: y\nGET http://b/", &["GET http://a/|X: y", "GET http://b/"]),
            (
                "POST http://a/\nX: y\n@/body\nPOST http://b/\n@body with spaces.txt",
                &["POST http://a/|X: y|@/body", "POST http://b/|@body with spaces.txt"],
            ),
            ("GET http://a/\nHOST : b\nURL: http://c/", &["GET http://a/|HOST: b|URL: http://c/"]),
            ("PURGE http://a/münchen?é", &["PURGE http://a/m%C3%BCnchen?<redacted>"]),
            ("PURGE http://a/", &["PURGE http://a/"]),
            ("GET http://a/\rX: y\r\rGET http://b/", &["GET http://a/|X: y", "GET http://b/"]),
            ("M-SEARCH http://a/", &["M-SEARCH http://a/"]),
            (
                "GET http://user:p%40ss@a:90/x@y",
                &["GET http://a:90/x@y|Authorization: Basic dXNlcjpwQHNz"],
            ),
            (
                "GET http://user@a/\nX: y\nAuthorization: z",
                &["GET http://a/|X: y|Authorization: z"],
            ),
        ] {
            assert_eq!(flat(Format::Http, text), expected, "{text:?}");
        }
    }

    #[test]
    fn json_targets() {
        for (text, expected) in [
            (r#"{"method":"GET","url":"http://a/\u00fc"}"#, &["GET http://a/%C3%BC"][..]),
            (r#"{"method":"GET","url":"http://a"}"#, &["GET http://a/"]),
            ("# c\n{\"method\":\"GET\",\"url\":\"http://a\"}\n # c", &["GET http://a/"]),
            (
                "\n {\"url\":\"http://a\",\"method\":\"POST\",\"body\":\"Rk9P\",\
                 \"header\":{\"X\":[\"1\",\"2\"],\"B\":\"3\"}}\r\n\n\
                 {\"method\":\"PUT\",\"url\":\"https://b:1/x\",\"body\":null,\"header\":null}",
                &["POST http://a/|B: 3|X: 1|X: 2|@FOO", "PUT https://b:1/x"],
            ),
            (
                r#"{"method":"GET","url":"http://u:p@a","header":{"X":[],"Y":null,"Z":""}}"#,
                &["GET http://a/|Z: |Authorization: Basic dTpw"],
            ),
        ] {
            assert_eq!(flat(Format::Json, text), expected, "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_place_and_the_fix() {
        use Format::{Http, Json};
        for (format, text, expected) in [
            (Http, "", "t: no targets"),
            (Http, "# only a comment\n\n", "t: no targets"),
            (Json, "\n \n", "t: no targets"),
            (Http, "\nGET", "t, line 2: \"GET\" is not METHOD URL"),
            (Http, "http://a/", "t, line 1: \"http://a/\" is not METHOD URL"),
            (Http, "X: y\nGET http://a/", "t, line 1: \"X:\" is not METHOD URL"),
            (Http, "POST http://a/\n@/body\nX: y", "t, line 3: \"X:\" is not METHOD URL"),
            (Http, "get http://a/", "t, line 1: \"get\" is not an HTTP method"),
            (Http, "GET /x", "t, line 1: URL \"/x\" has no scheme and no host; write"),
            (
                Http,
                "GET http://a/ HTTP/1.1",
                "t, line 1: URL \"http://a/ HTTP/1.1\" is malformed: it has a space",
            ),
            (
                Http,
                "GET http://a/\nGET http://é/",
                "t, line 2: URL \"http://é/\" is malformed: its host",
            ),
            (
                Http,
                "GET http://a/\nGET ftp://b",
                "t, line 2: URL \"ftp://b\" has a scheme that is not spoken",
            ),
            (Http, "GET http://a/\nno colon", "t, line 2: the header that begins with \"no\""),
            (Http, "GET http://a/\nToken:", "t, line 2: the header that begins with \"Token\""),
            (Http, "GET http://a/\n: x", "t, line 2: the header that begins with \"\""),
            (Http, "GET http://a/\nA: \u{1}", "t, line 2: the header that begins with \"A\""),
            (Http, "GET http://a/\n\n\nPUT http://a/\n@/none", "t, line 5: body file \"/none\": "),
            (Json, "GET http://a/", "t, line 1: not a JSON target: expected value (column 1)"),
            (Json, "{}", "t, line 1: not a JSON target: missing field `method` (column 2)"),
            (Json, r#"{"method":"GET"}"#, "t, line 1: not a JSON target: missing field `url`"),
            (
                Json,
                r#"{"method":"G T","url":"http://a"}"#,
                "t, line 1: \"G T\" is not an HTTP method",
            ),
            (Json, r#"{"method":"","url":"http://a"}"#, "t, line 1: \"\" is not an HTTP method"),
            (
                Json,
                r#"{"method":"GET","url":"a"}"#,
                "t, line 1: URL \"a\" has no scheme; write http://a or https://a",
            ),
            (Json, r#"{"method":"GET","url":"http://a","headers":{}}"#, {
                "t, line 1: not a JSON target: unknown field `headers`"
            }),
            (Json, "\n{\"method\":\"GET\",\"url\":\"http://a\",\"body\":\"?\"}", {
                "t, line 2: the body is not base64"
            }),
            (Json, r#"{"method":"GET","url":"http://a","header":{"X":["a\nb: c"]}}"#, {
                "t, line 1: the header that begins with \"X\""
            }),
            (Json, r#"{"method":"GET","url":"http://a","header":{"a: b\r\nc":["d"]}}"#, {
                "t, line 1: the header that begins with \"a: b\\r\\nc\""
            }),
        ] {
            let error = read(format, text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text:?} gave {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        for (text, expected) in [
            (&b"GET http://a/\n\xff"[..], "t, line 2: not UTF-8"),
            (b"GET http://a/\rGET http://b/\0", "t, line 2: a NUL byte"),
            (b"\xff\xfeG\0", "t, line 1: the text is UTF-16"),
        ] {
            let error = parse(Http, "t", text, &[], &mut no_file).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for (format, text) in [
            (Format::Http, "GET http://a/\nAuthorization Bearer hush"),
            (Format::Http, "GET http://a/\nAuthorization: Bearer hush\u{1}"),
            (Format::Http, "Authorization: hush"),
            (Format::Http, "GET http://user:hush@a:99999/"),
            (Format::Json, r#"{"method":"GET","url":"http://a","header":{"A":{"hush":1}}}"#),
        ] {
            let error = read(format, text).expect_err(text).to_string();
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn defaults_yield_to_the_targets_own() {
        let defaults =
            [("x".into(), "1".into()), ("Y".into(), "2".into()), ("Y".into(), "3".into())];
        let text = b"GET http://a/\nX: own\n\nGET http://u@b/";
        let targets = parse(Format::Http, "t", text, &defaults, &mut no_file).expect("valid");
        let headers = |index: usize| {
            let headers = targets[index].headers.iter();
            headers.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(headers(0), ["X=own", "Y=2", "Y=3"]);
        assert_eq!(headers(1), ["Authorization=Basic dTo=", "x=1", "Y=2", "Y=3"]);
    }

    #[test]
    fn bodies_are_bounded() {
        let body = |bytes: usize| {
            let mut file = |_: &str| Ok(Body::elsewhere(0, bytes));
            parse(Format::Http, "t", b"PUT http://a/\n@f", &[], &mut file)
        };
        assert!(body(BODY_BYTES_MAX).is_ok());
        let error = body(BODY_BYTES_MAX + 1).expect_err("over the bound").to_string();
        assert!(error.starts_with("t, line 2: the body has 1073741825 bytes"), "{error}");
    }

    #[test]
    fn targets_are_bounded() {
        let mut collected = Collected { targets: Vec::new(), targets_max: 2 };
        let mut push =
            || collected.push(Draft::new("GET", "http://a/").expect("a target").finish());
        assert!(push().is_ok() && push().is_ok());
        assert!(matches!(push(), Err(Problem::TooMany)));
    }

    #[test]
    fn formats() {
        assert_eq!(detect(b"\xef\xbb\xbf\r\n\t {"), Format::Json);
        assert_eq!(detect(b"# c\r{"), Format::Json);
        assert_eq!(detect(b"GET http://a/"), Format::Http);
        assert_eq!(detect(b""), Format::Http);
    }

    proptest! {
        #[test]
        fn any_bytes_give_targets_or_one_line(text in prop::collection::vec(any::<u8>(), 0..200)) {
            for format in [Format::Http, Format::Json] {
                match parse(format, "t", &text, &[], &mut no_file) {
                    Ok(targets) => prop_assert!(!targets.is_empty()),
                    Err(error) => prop_assert!(!error.to_string().contains('\n')),
                }
            }
        }

        #[test]
        fn almost_targets_never_panic(
            text in "((GET|PUT|x)? ?(http://)?[a%@:\u{e9}]{0,6}(\n|\r\n)?(#|@|X ?: ?)?){0,8}",
        ) {
            let _ = parse(Format::Http, "t", text.as_bytes(), &[], &mut no_file);
            let _ = detect(text.as_bytes());
        }

        #[test]
        fn almost_json_never_panics(
            text in concat!(
                r#"(\{("method":"(GET|)",?)?("url":"(http://[a@%]{0,3})?",?)?"#,
                r#"("header":\{"X":\["?[a\\]{0,2}"?\]\},?)?("body":"[A=]{0,4}")?\}\n?){0,3}"#,
            ),
        ) {
            let _ = parse(Format::Json, "t", text.as_bytes(), &[], &mut no_file);
        }
    }
}
