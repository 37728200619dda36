//! The command lines of README and book in fences marked ```` ```sh run ````: each runs as it is written, within
//! bounds, in a network namespace where the servers answer that the pages name.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::plimsoll::{Finished, Plimsoll};
use e2e::{process, program, ssh_hosts};

/// Fewer pages of the book with a mark are a fault of this test.
const PAGES_MIN: usize = 4;
/// Shorter or smaller spellings of what a test has no time for.
const BOUNDS: [(&str, &str); 8] = [
    (" --duration 30s", " --duration 2s"),
    (" --duration 10s", " --duration 2s"),
    (" --max 200k", " --max 200 --mode quick --for 1s"),
    (" --connections 10k --heartbeat 1m", " --connections 100 --heartbeat 1s --for 2s"),
    ("find rate ", "find rate --budget 30s --max 200 --probe-timeouts 0 "),
    ("compare '", "compare --rounds 8 --budget 80s '"),
    ("'lab --sut", "'lab -H \"sleep-fixed: 50\" --sut"),
    ("127.0.0.1:8081/", "127.0.0.1:8081/ --rounds 8 -- --rate 200 --duration 500ms"),
];

/// `$0` is the program. A second name of this host is the server of the pages: nginx answers HTTPS at 443, with a
/// certificate that the system trusts, and reports its counters at port 80; `plimsoll serve` answers HTTP at 8080 and
/// 8081, and HTTPS at 8443.
const SERVERS: &str = r#"
ip link set lo up
echo "127.0.0.1 localhost server.example" > hosts && mount --bind hosts /etc/hosts
mkdir bin && ln -s "$0" bin/plimsoll
KEY='ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
openssl req -x509 -newkey $KEY -subj /CN=book -keyout ca.key -out ca 2> log
openssl req -newkey $KEY -subj /CN=server.example -keyout key -out request 2> log
echo "subjectAltName=DNS:server.example" > extensions
openssl x509 -req -in request -CA ca -CAkey ca.key -CAcreateserial -extfile extensions -out chain 2> log
export PATH=$PWD/bin:$PATH SSL_CERT_FILE=$PWD/ca
cat > nginx.conf <<CONFIGURATION
user root; pid $PWD/pid; error_log $PWD/log; daemon off;
events { worker_connections 4096; }
http {
  access_log off; ssl_certificate $PWD/chain; ssl_certificate_key $PWD/key;
  client_body_temp_path $PWD/1; proxy_temp_path $PWD/2; fastcgi_temp_path $PWD/3; uwsgi_temp_path $PWD/4; scgi_temp_path $PWD/5;
  server {
    listen 127.0.0.1:80; listen 127.0.0.1:443 ssl backlog=4096;
    location / { return 200 pong; }
    location = /status { stub_status; }
  }
}
CONFIGURATION
nginx -p $PWD -c $PWD/nginx.conf > log 2>&1 < /dev/null & NGINX=$!
plimsoll serve --http 127.0.0.1:8080-8081 --https 127.0.0.1:8443 --cert chain --key key --no-ui > log 2>&1 < /dev/null & SERVE=$!
for port in 80 443 8080 8081 8443; do
  until (exec 3<> /dev/tcp/127.0.0.1/$port) 2> /dev/null; do sleep 0.02; done
done
"#;

/// Command lines of marked fences.
fn marked(text: &str) -> Vec<String> {
    let mut is_marked = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_marked = line == "```sh run";
        } else if is_marked && !line.is_empty() && !line.starts_with('#') {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn bounded(line: &str) -> String {
    BOUNDS.iter().fold(line.to_owned(), |line, (long, short)| line.replace(long, short))
}

/// Pages below `folder` with a marked fence.
fn marked_pages(folder: &Path) -> Vec<PathBuf> {
    let paths = process::entries(folder).into_iter().flat_map(|path| match path.is_dir() {
        true => marked_pages(&path),
        false => vec![path],
    });
    let is_page = |path: &PathBuf| path.extension().is_some_and(|name| name == "md");
    paths.filter(is_page).filter(|path| !marked_in(path).is_empty()).collect()
}

fn marked_in(page: &Path) -> Vec<String> {
    marked(&fs::read_to_string(page).expect("a page of the book"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs the marked lines of a page one after another in one folder. `None` if this host does not allow namespaces.
fn run(page: &Path) -> Option<Finished> {
    if !ssh_hosts::is_possible() {
        return None;
    }
    let lines = marked_in(page);
    assert!(!lines.is_empty(), "{} has no fence that is marked as run", page.display());
    let mut script = format!("set -e\n{SERVERS}set +e\n");
    for line in &lines {
        // Its exit code says that a limit of this host is too low.
        let codes = if line.starts_with("plimsoll doctor") { "0|1" } else { "0|97|98|99" };
        script += &format!(
            "echo; {} > out 2>&1 < /dev/null; C=$?\necho \"exit code $C\"; cat out\n\
             case $C in {codes}) ;; *) WRONG=1 ;; esac\ngrep -q 'Not one of' out && WRONG=1\n",
            bounded(line)
        );
    }
    script += "kill $NGINX; kill -INT $SERVE; wait; exit ${WRONG:-0}";
    for name in ["openssl", "haproxy", "nginx"] {
        program::installed(name);
    }
    Some(Plimsoll::unshared("-nm", &script, &[]).run())
}

fn assert_all_ran(pages: &[PathBuf]) {
    for page in pages {
        let Some(finished) = run(page) else { return };
        let shown = format!("{}:\n{}\n{}", page.display(), finished.stdout, finished.stderr);
        assert_eq!(finished.code, Some(0), "{shown}");
    }
}

#[test]
fn the_five_tasks_of_the_readme_run_as_written() {
    assert_all_ran(&[root().join("README.md")]);
}

#[test]
fn marked_command_lines_of_the_book_run_as_written() {
    let pages = marked_pages(&root().join("docs"));
    assert!(pages.len() >= PAGES_MIN, "{pages:?}");
    assert_all_ran(&pages);
}
