//! The script that a shell on a host gets: it finds the program there, or receives it, and becomes it.
//!
//! A program that is there counts when it is this build, which is asked of it. A copy lies in a directory
//! that is named after the build, below one that belongs to the user alone; two runs at once write the
//! same bytes.

use std::time::Duration;

use super::program::Program;

/// Copies are kept of so many builds.
const BUILDS_KEPT: usize = 3;

/// Everything in a function: a shell that reads its script ahead has then read all of it before it runs, and
/// what is sent later is the program's.
const SCRIPT: &str = r#"say() { printf '\001PLIMSOLL @NONCE@ %s\n' "$1"; }
run() { cd / && LC_ALL=C && export LC_ALL && exec "$1" agent --nonce @NONCE@ --lease @LEASE@; }
is_it() { [ -f "$1" ] && [ -x "$1" ] && [ "$("$1" agent --identity </dev/null 2>/dev/null)" = @IDENTITY@ ]; }
places() {
  u=plimsoll-$(id -u)
  for d in "${XDG_CACHE_HOME:+$XDG_CACHE_HOME/plimsoll}" "${HOME:+$HOME/.cache/plimsoll}" \
    "${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/plimsoll}" "/var/tmp/$u" "${TMPDIR:+$TMPDIR/$u}"; do
    case $d in /*) printf '%s\n' "$d" ;; esac
  done
}
is_own() { [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && chmod 700 "$1" 2>/dev/null; }
fits() {
  f=$(df -Pk "$1" 2>/dev/null | awk 'END { print $4 }')
  [ "${f:-0}" -gt @KIB@ ]
}
main() {
  umask 077
  for p in @PATH@ "$(command -v plimsoll)"; do
    if is_it "$p"; then run "$p"; fi
  done
  set -f
  IFS='
'
  for d in $(places); do
    p=$d/agents/@IDENTITY@/plimsoll
    if is_own "$d" && is_it "$p"; then run "$p"; fi
  done
  why=
  for d in $(places); do
    a=$d/agents; p=$a/@IDENTITY@/plimsoll; n=$a/@IDENTITY@/new.$$
    mkdir -p "$a/@IDENTITY@" 2>/dev/null
    if ! is_own "$d" || ! is_own "$a" || ! is_own "$a/@IDENTITY@"; then
      why="$why; $d cannot be written by this user alone"; continue
    fi
    if ! printf '#!/bin/sh\nexit 0\n' >"$n" 2>/dev/null || ! chmod 700 "$n"; then
      why="$why; $d is full"; rm -f "$n"; continue
    fi
    if ! "$n" </dev/null 2>/dev/null; then
      why="$why; $d does not let programs run (noexec)"; rm -f "$n"; continue
    fi
    if ! fits "$a"; then
      why="$why; $d has no room for @KIB@ KiB"; rm -f "$n"; continue
    fi
    say "want $(uname -m)"
    if ! head -c @BYTES@ >"$n"; then
      rm -f "$n"; say "fail cannot write the program to $d"; exit 1
    fi
    if is_it "$n"; then
      mv -f "$n" "$p"
      ls -1t "$a" | tail -n +@KEPT@ | while read -r old; do
        case $old in *[!0-9a-f.]*|.*) ;; *) rm -f "$a/$old/plimsoll"; rmdir "$a/$old" 2>/dev/null ;; esac
      done
      run "$p"
    fi
    e=$("$n" agent --identity </dev/null 2>&1 | head -n 1); rm -f "$n"
    say "fail the copy of plimsoll does not run there: $e"; exit 1
  done
  say "fail no directory can have a copy of plimsoll$why"; exit 1
}
main
"#;

/// The same where the user names the program.
const SCRIPT_OF_PATH: &str = r#"main() {
  LC_ALL=C; export LC_ALL
  if [ -x @PATH@ ]; then cd / && exec @PATH@ agent --nonce @NONCE@ --lease @LEASE@; fi
  printf '\001PLIMSOLL @NONCE@ fail %s\n' @PATH@" is no program there"; exit 1
}
main
"#;

/// The script for an agent that ends when it hears nothing for `lease`, and opens with `nonce`.
pub(crate) fn script(
    program: &Program,
    path: Option<&str>,
    nonce: &str,
    lease: Duration,
) -> String {
    let own = program.path.as_ref().map(|path| path.display().to_string());
    let (script, path) = match path {
        Some(path) => (SCRIPT_OF_PATH, Some(path.to_owned())),
        None => (SCRIPT, own),
    };
    script
        .replace("@NONCE@", nonce)
        .replace("@LEASE@", &lease.as_secs().to_string())
        .replace("@IDENTITY@", program.identity)
        .replace("@KIB@", &program.bytes.div_ceil(1024).to_string())
        .replace("@BYTES@", &program.bytes.to_string())
        .replace("@KEPT@", &(BUILDS_KEPT + 1).to_string())
        // Last: nothing in it is replaced.
        .replace("@PATH@", &quoted(&path.unwrap_or_default()))
}

/// One word of a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::{fs, thread};

    use super::super::preamble::{Preamble, Word};
    use super::*;

    const NONCE: &str = "00ff";

    /// A stand-in for the program: says who it is, or what it was started with.
    const PROGRAM: &str =
        "#!/bin/sh\ncase $2 in --identity) echo b1;; *) echo \"ran $0 $*\";; esac\n";

    struct Said {
        words: Vec<Word>,
        /// What came after the words.
        rest: String,
    }

    /// Runs the script with these directories for copies, and sends the program when it is wanted.
    fn run(own: Option<&Path>, path: Option<&str>, cache: &Path) -> Said {
        let program =
            Program { identity: "b1", bytes: PROGRAM.len() as u64, path: own.map(Path::to_owned) };
        let mut shell = Command::new("/bin/sh")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("XDG_CACHE_HOME", cache)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, mut stdout) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        stdin.write_all(script(&program, path, NONCE, Duration::from_secs(10)).as_bytes()).unwrap();
        let mut preamble = Preamble::new(NONCE);
        let mut words = Vec::new();
        while let Some(word) = preamble.next_word(&mut stdout).unwrap() {
            if let Word::Want(_) = word {
                stdin.write_all(PROGRAM.as_bytes()).unwrap();
            }
            words.push(word);
        }
        drop(stdin);
        let mut rest = String::from_utf8(preamble.noise.clone()).unwrap();
        stdout.read_to_string(&mut rest).unwrap();
        shell.wait().unwrap();
        Said { words, rest }
    }

    fn install(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_program_is_copied_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = run(None, None, folder.path());
        assert!(matches!(&first.words[..], [Word::Want(machine)] if !machine.is_empty()));
        let copy = folder.path().join("plimsoll/agents/b1/plimsoll");
        let ran = format!("ran {} agent --nonce 00ff --lease 10\n", copy.display());
        assert_eq!(first.rest, ran);
        let again = run(None, None, folder.path());
        assert_eq!((again.words, again.rest), (Vec::new(), ran));
        let mode = fs::metadata(folder.path().join("plimsoll")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn two_at_once_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            let runs: Vec<_> =
                (0..4).map(|_| scope.spawn(|| run(None, None, folder.path()))).collect();
            for one in runs {
                assert!(one.join().unwrap().rest.starts_with("ran "));
            }
        });
        let left: Vec<_> = fs::read_dir(folder.path().join("plimsoll/agents/b1"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["plimsoll"]);
    }

    #[test]
    fn the_same_build_elsewhere_is_used_and_another_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("it's here");
        install(&own, PROGRAM);
        let found = run(Some(&own), None, folder.path());
        assert_eq!(found.words, []);
        assert!(found.rest.contains("it's here agent"), "{}", found.rest);
        install(&own, "#!/bin/sh\necho another\n");
        assert!(matches!(run(Some(&own), None, folder.path()).words[..], [Word::Want(_)]));
    }

    #[test]
    fn only_the_newest_builds_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let agents = folder.path().join("plimsoll/agents");
        for old in ["a1", "a2", "a3", "a4"] {
            fs::create_dir_all(agents.join(old)).unwrap();
            install(&agents.join(old).join("plimsoll"), "old");
        }
        // Not one of ours.
        fs::create_dir(agents.join("notes")).unwrap();
        run(None, None, folder.path());
        let left = fs::read_dir(&agents).unwrap().count();
        assert!((BUILDS_KEPT..=BUILDS_KEPT + 1).contains(&left), "{left}");
        assert!(agents.join("b1/plimsoll").exists() && agents.join("notes").exists());
    }

    #[test]
    fn a_named_program_is_used_whatever_build_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("mine");
        install(&own, "#!/bin/sh\necho \"mine $*\"\n");
        let path = own.to_str().unwrap();
        let said = run(None, Some(path), folder.path());
        assert_eq!(said.rest, "mine agent --nonce 00ff --lease 10\n");
        fs::remove_file(&own).unwrap();
        let said = run(None, Some(path), folder.path());
        assert!(
            matches!(&said.words[..], [Word::Fail(why)] if why.ends_with("is no program there"))
        );
    }

    #[test]
    fn a_host_without_a_place_says_what_is_wrong_with_each() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("file");
        fs::write(&taken, "").unwrap();
        // Directories of the user's that are always there are no failure: the copy would go to them.
        let mut shell = Command::new("/bin/sh")
            .env_clear()
            .env("PATH", folder.path())
            .env("XDG_CACHE_HOME", &taken)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let program = Program { identity: "b1", bytes: 1, path: None };
        let text = script(&program, None, NONCE, Duration::from_secs(1));
        shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let mut stdout = shell.stdout.take().unwrap();
        let word = Preamble::new(NONCE).next_word(&mut stdout).unwrap();
        shell.wait().unwrap();
        assert!(
            matches!(&word, Some(Word::Fail(why)) if why.contains("no directory can have a copy")),
            "{word:?}"
        );
    }
}
