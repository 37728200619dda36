//! What must not reach an archive: credentials in headers, keys, request bodies.

use plimsoll_model::plan::LoadPlan;
use serde_json::{Value, json};

/// What stands where a secret was.
const REDACTED: &str = "<redacted>";

/// Parts of a header's name that make its value a secret. More than the five names that the
/// standards know (Authorization, Proxy-Authorization, Cookie, Set-Cookie, X-Api-Key): hiding a
/// harmless value costs nothing.
const SECRET_NAME_PARTS: [&str; 12] = [
    "authorization",
    "cookie",
    "api-key",
    "apikey",
    "api_key",
    "x-auth",
    "token",
    "secret",
    "password",
    "credential",
    "session",
    "signature",
];

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
}

/// The command line without secrets: values of secret headers in every spelling of `-H`, the text
/// of `--data`, user and password in a URL. File names stay.
pub fn command_line_redacted(args: &[String]) -> Vec<String> {
    let mut out = Vec::with_capacity(args.len());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--data" {
            out.push(arg.clone());
            out.extend(args.next().map(|text| length(text)));
        } else if let Some(text) = arg.strip_prefix("--data=") {
            out.push(format!("--data={}", length(text)));
        } else {
            out.push(argument_redacted(arg));
        }
    }
    out
}

fn length(text: &str) -> String {
    format!("<{} bytes>", text.len())
}

fn argument_redacted(arg: &str) -> String {
    // Whatever stands before the colon, `-H`, `-HName`, `--header=Name` or `Name`, holds the name.
    if let Some((name, _)) = arg.split_once(':')
        && is_secret_name(name)
    {
        return format!("{name}: {REDACTED}");
    }
    if let Some((scheme, rest)) = arg.split_once("://") {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        if let Some((user, _)) = authority.rsplit_once('@') {
            return format!("{scheme}://{REDACTED}{}", &rest[user.len()..]);
        }
    }
    arg.to_owned()
}

/// A URL without the values of secret parameters in its query.
pub(crate) fn url_redacted(url: &str) -> String {
    let Some((before, query)) = url.split_once('?') else { return url.to_owned() };
    let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if is_secret_parameter(name) => format!("{name}={REDACTED}"),
        _ => parameter.to_owned(),
    });
    format!("{before}?{}", parameters.collect::<Vec<_>>().join("&"))
}

/// Also what names no secret in a header.
fn is_secret_parameter(name: &str) -> bool {
    is_secret_name(name) || ["key", "sig", "auth", "code", "pass", "pwd"].contains(&name)
}

/// The plan as JSON without secrets: secret headers and the client key are hidden, bodies are
/// replaced by their length.
pub fn plan_redacted(plan: &LoadPlan) -> Value {
    let mut plan = plan.clone();
    for target in &mut plan.targets {
        for (name, value) in &mut target.headers {
            if is_secret_name(name) {
                REDACTED.clone_into(value);
            }
        }
    }
    if let Some(identity) = &mut plan.tls.identity {
        REDACTED.clone_into(&mut identity.key_pem);
    }
    let bodies: Vec<_> =
        plan.targets.iter_mut().map(|target| std::mem::take(&mut target.body).len()).collect();
    // A plan is numbers, strings and lists: nothing in it that JSON lacks.
    let mut value = serde_json::to_value(&plan).unwrap_or(Value::Null);
    for (index, bytes) in bodies.into_iter().enumerate() {
        if let Some(body) = value.pointer_mut(&format!("/targets/{index}/body")) {
            *body = json!({ "bytes": bytes });
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::fixtures::SECRET;

    #[test]
    fn no_spelling_of_a_header_leaks() {
        let args: Vec<String> = [
            "load".to_owned(),
            "-H".to_owned(),
            format!("Authorization: Bearer {SECRET}"),
            format!("-Hcookie: a={SECRET}"),
            format!("-H=Set-Cookie:{SECRET}"),
            "--header".to_owned(),
            format!("proxy-authorization : {SECRET}"),
            format!("--header=X-Api-Key: {SECRET}"),
            "--data".to_owned(),
            SECRET.to_owned(),
            format!("--data={SECRET}"),
            format!("https://user:{SECRET}@host:8443/path@x"),
        ]
        .into();
        let redacted = command_line_redacted(&args);
        assert_eq!(redacted.len(), args.len());
        assert!(!redacted.concat().contains(SECRET), "{redacted:?}");
        assert!(redacted.contains(&"https://<redacted>@host:8443/path@x".to_owned()));
        assert!(redacted.contains(&"<7 bytes>".to_owned()));
    }

    #[test]
    fn what_is_no_secret_stays() {
        let args = [
            "load",
            "-H",
            "sleep: 20",
            "--body",
            "file.bin",
            "--key",
            "client.pem",
            "https://host:8443/a?b=c@d",
            "--stages",
            "10s:500,1m:2000",
            "--data",
        ]
        .map(str::to_owned);
        assert_eq!(command_line_redacted(&args), args);
    }

    #[test]
    fn a_query_keeps_its_shape() {
        let url = format!("http://host/a?user=7&access_token={SECRET}&sig={SECRET}#x");
        let redacted = url_redacted(&url);
        assert!(!redacted.contains(SECRET), "{redacted}");
        assert!(
            redacted.starts_with("http://host/a?user=7&access_token=<redacted>&"),
            "{redacted}"
        );
        assert_eq!(url_redacted("http://host/a/b"), "http://host/a/b");
    }

    #[test]
    fn a_plan_keeps_its_shape() {
        let plan = plan_redacted(&fixtures::plan());
        assert!(!plan.to_string().contains(SECRET), "{plan}");
        assert_eq!(plan.pointer("/targets/0/body/bytes"), Some(&json!(SECRET.len())));
        assert_eq!(plan.pointer("/targets/0/headers/0/0"), Some(&json!("Authorization")));
        assert_eq!(plan.pointer("/targets/0/headers/3/1"), Some(&json!("20")));
        assert_eq!(plan.pointer("/tls/identity/key_pem"), Some(&json!(REDACTED)));
    }
}
