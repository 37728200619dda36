//! Succeeded and failed operations, from the report of each tool.
//!
//! [`count`] receives the text that a tool wrote and calls the function for this tool, which returns (succeeded,
//! failed) or `None` if the text is no report. Operations that the end of the run cut off are neither. The functions
//! differ because the tools do: some count a failed request as complete, and h1load reports no status. A new tool
//! needs a row in [`count`] and a test with a real report. Start with [`count`].

use serde_json::Value;

use crate::bench::tool::Tool;

/// Returns the succeeded and failed operations of a report; `None` if it is not one. For plimsoll, oha, vegeta
/// and k6 it is JSON.
pub(crate) fn count(tool: Tool, report: &str) -> Option<(u64, u64)> {
    let json = || serde_json::from_str::<Value>(report).ok();
    match tool {
        Tool::Plimsoll => count_plimsoll(&json()?),
        Tool::Wrk => count_wrk(report),
        Tool::Ab => count_ab(report),
        Tool::H1load => count_h1load(report),
        Tool::H2load => count_h2load(report),
        Tool::Oha => count_oha(&json()?),
        Tool::Hey => count_hey(report),
        Tool::Vegeta => count_vegeta(&json()?),
        Tool::K6 => count_k6(&json()?),
    }
}

/// Returns the text after `mark` on the first line that has it.
fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.split_once(mark)?.1.trim()))
}

fn count_plimsoll(summary: &Value) -> Option<(u64, u64)> {
    Some((summary["ok"].as_u64()?, summary["errors"].as_u64()?))
}

fn count_wrk(text: &str) -> Option<(u64, u64)> {
    let all = text.lines().find_map(|line| line.trim().split_once(" requests in "))?;
    let all: u64 = all.0.parse().ok()?;
    // "Socket errors: connect 0, read 3, write 0, timeout 1"
    let socket: u64 = after(text, "Socket errors:").map_or(0, |counts| {
        counts.split(|at: char| !at.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok()).sum()
    });
    let status: u64 = match after(text, "Non-2xx or 3xx responses:") {
        Some(count) => count.parse().ok()?,
        None => 0,
    };
    Some((all.checked_sub(status)?, socket + status))
}

/// Counts the requests of ab, which counts a failed request as complete, and bad answers apart from both.
fn count_ab(text: &str) -> Option<(u64, u64)> {
    let number = |mark| after(text, mark)?.parse::<u64>().ok();
    let failed = number("Failed requests:")? + number("Non-2xx responses:").unwrap_or(0);
    Some((number("Complete requests:")?.checked_sub(failed)?, failed))
}

/// The columns are time, connections, all connections, all requests, all bytes, all errors, rates.
/// It reports no status.
fn count_h1load(text: &str) -> Option<(u64, u64)> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        columns.first()?.parse::<u64>().ok()?;
        Some((columns.get(3)?.parse().ok()?, columns.get(5)?.parse().ok()?))
    };
    text.lines().rev().find_map(row)
}

/// "requests: 9 total, 9 started, 8 done, 7 succeeded, 1 failed, 0 errored, 0 timeout"; a bad status
/// is a failure. What its clock cut off is neither.
fn count_h2load(text: &str) -> Option<(u64, u64)> {
    let counts = after(text, "requests: ")?;
    let number = |name: &str| {
        let part = counts.split(", ").find_map(|part| part.strip_suffix(name))?;
        part.trim().parse::<u64>().ok()
    };
    Some((number(" succeeded")?, number(" failed")?))
}

/// Counts a report of oha. Operations that its clock cut off are neither good nor failed.
fn count_oha(json: &Value) -> Option<(u64, u64)> {
    let status = json["statusCodeDistribution"].as_object()?;
    let ok = status.get("200").and_then(Value::as_u64).unwrap_or(0);
    let answered: u64 = status.values().filter_map(Value::as_u64).sum();
    let errors = json["errorDistribution"].as_object();
    let broken: u64 = errors
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "aborted due to deadline")
        .filter_map(|(_, count)| count.as_u64())
        .sum();
    Some((ok, answered - ok + broken))
}

/// Counts a report of hey. Its distributions end at a million results, its rate does not. Lines of both are `[200] 7
/// ...` and `[7] text`.
fn count_hey(text: &str) -> Option<(u64, u64)> {
    let seconds: f64 = after(text, "Total:")?.strip_suffix(" secs")?.parse().ok()?;
    let per_s: f64 = after(text, "Requests/sec:")?.parse().ok()?;
    let (statuses, errors) = text.split_once("Error distribution:").unwrap_or((text, ""));
    let statuses = statuses.split_once("Status code distribution:")?.1;
    let pairs = |part: &str| -> Vec<(u64, String)> {
        let pair = |line: &str| {
            let (number, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
            Some((number.parse().ok()?, rest.trim().to_owned()))
        };
        part.lines().filter_map(pair).collect()
    };
    let is_ok = |status: u64| (200..400).contains(&status);
    let count = |text: &str| text.split(' ').next().and_then(|count| count.parse::<u64>().ok());
    let bad = pairs(statuses).into_iter().filter(|(status, _)| !is_ok(*status));
    let bad: u64 = bad.filter_map(|(_, text)| count(&text)).sum();
    let failed = bad + pairs(errors).iter().map(|(errors, _)| errors).sum::<u64>();
    let all = (seconds * per_s).round() as u64;
    Some((all.checked_sub(failed)?, failed))
}

/// Status 0 is its own error.
fn count_vegeta(report: &Value) -> Option<(u64, u64)> {
    let all = report["requests"].as_u64()?;
    let is_ok = |status: &str| status.starts_with('2') || status.starts_with('3');
    let statuses = report["status_codes"].as_object()?;
    let ok: u64 =
        statuses.iter().filter(|(s, _)| is_ok(s)).filter_map(|(_, count)| count.as_u64()).sum();
    Some((ok, all.checked_sub(ok)?))
}

/// Counts the requests of k6: in `http_req_failed` a pass is a failed request.
fn count_k6(summary: &Value) -> Option<(u64, u64)> {
    let failed = summary["metrics"]["http_req_failed"]["passes"].as_u64()?;
    let all = summary["metrics"]["http_reqs"]["count"].as_u64()?;
    Some((all.checked_sub(failed)?, failed))
}

/// Returns wrk's own requests per second.
pub(crate) fn wrk_rate_per_s(text: &str) -> Option<f64> {
    after(text, "Requests/sec:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrk_counts() {
        let clean =
            "Running 1s test @ http://x/\n  2 threads\n  1234 requests in 1.00s, 1.5MB read\n";
        assert_eq!(count(Tool::Wrk, clean), Some((1234, 0)));
        let broken = format!(
            "{clean}  Socket errors: connect 0, read 3, write 0, timeout 1\n  Non-2xx or 3xx \
             responses: 34\nRequests/sec:   1230.07\n"
        );
        assert_eq!(count(Tool::Wrk, &broken), Some((1200, 38)));
        assert_eq!(wrk_rate_per_s(&broken), Some(1230.07));
        assert_eq!(count(Tool::Wrk, "unable to connect"), None);
    }

    #[test]
    fn ab_counts() {
        let clean = "Complete requests:      266077\nFailed requests:        0\n";
        assert_eq!(count(Tool::Ab, clean), Some((266_077, 0)));
        let broken = "Complete requests:      10\nFailed requests:        2\n   (Connect: 0, \
                      Receive: 0, Length: 2, Exceptions: 0)\nNon-2xx responses:      3\n";
        assert_eq!(count(Tool::Ab, broken), Some((5, 5)));
        assert_eq!(count(Tool::Ab, "apr_socket_connect(): refused"), None);
    }

    #[test]
    fn h1load_counts() {
        let text = "#     time conns tot_conn  tot_req      tot_bytes    err  cps  rps  bps   ttfb\n\
                    \x20        1    20       20   169374       11178684      0 20.0 169k 89M4 117.6u\n\
                    \x20        2    20       21   292888       19330608      3 0.00 39.9 21k0    -\n";
        assert_eq!(count(Tool::H1load, text), Some((292_888, 3)));
        assert_eq!(count(Tool::H1load, "#     time conns\n"), None);
    }

    #[test]
    fn h2load_counts() {
        let text = "finished in 2.00s, 106639.50 req/s, 6.71MB/s\nrequests: 213279 total, 213299 \
                    started, 213279 done, 213277 succeeded, 2 failed, 1 errored, 0 timeout\n";
        assert_eq!(count(Tool::H2load, text), Some((213_277, 2)));
        assert_eq!(count(Tool::H2load, "starting benchmark..."), None);
    }

    #[test]
    fn oha_counts() {
        let json = json!({
            "statusCodeDistribution": {"200": 900, "503": 10},
            "errorDistribution": {"aborted due to deadline": 100, "connection refused": 5},
        });
        assert_eq!(count(Tool::Oha, &json.to_string()), Some((900, 15)));
        assert_eq!(count(Tool::Oha, "{}"), None);
        assert_eq!(count(Tool::Oha, "no JSON"), None);
    }

    #[test]
    fn hey_counts() {
        let text = "Summary:\n  Total:\t2.0000 secs\n  Requests/sec:\t600000.0000\n\n\
                    Status code distribution:\n  [200]\t999990 responses\n  [503]\t7 responses\n\n\
                    Error distribution:\n  [3]\tGet \"http://x/\": refused\n";
        assert_eq!(count(Tool::Hey, text), Some((1_199_990, 10)));
        let clean = text.split("\n\nError").next().unwrap().replace("[503]\t7", "[301]\t7");
        assert_eq!(count(Tool::Hey, &clean), Some((1_200_000, 0)));
        assert_eq!(count(Tool::Hey, "Usage: hey"), None);
    }

    #[test]
    fn vegeta_counts() {
        let json = json!({"requests": 110, "status_codes": {"0": 3, "200": 100, "503": 7}});
        assert_eq!(count(Tool::Vegeta, &json.to_string()), Some((100, 10)));
        assert_eq!(count(Tool::Vegeta, "{}"), None);
    }

    #[test]
    fn k6_counts() {
        let json = json!({"metrics": {
            "http_reqs": {"count": 100, "rate": 50.0},
            "http_req_failed": {"passes": 4, "fails": 96, "value": 0.04},
        }});
        assert_eq!(count(Tool::K6, &json.to_string()), Some((96, 4)));
        assert_eq!(count(Tool::K6, "{}"), None);
    }

    #[test]
    fn plimsoll_counts() {
        assert_eq!(count(Tool::Plimsoll, r#"{"ok": 7, "errors": 2}"#), Some((7, 2)));
        assert_eq!(count(Tool::Plimsoll, "{}"), None);
    }
}
