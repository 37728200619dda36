//! The script that a shell on a host gets: it finds the program there, or receives it, and becomes it.
//!
//! The login may be root's, and other users of the host must gain nothing by that. So a file is run only if no user but
//! root and the login user can replace it or a directory of its path, and if it has the SHA-256 of this program. A copy
//! lies in a directory that is named after the build, below one that belongs to the user alone; two runs at once write
//! the same bytes.

use std::time::Duration;

use super::program::Program;

/// Number of builds of which copies are kept.
const BUILDS_KEPT: usize = 3;

/// Functions of both scripts. `way` follows a path part by part, and each link in it, as the kernel does; it prints
/// where that leads, so that what was looked at is what is used, and fails where a part belongs to neither root nor
/// this user, or where others may write. In a directory with the sticky bit they may, because they cannot exchange what
/// is not theirs.
const WAY: &str = r#"way() (
  IFS=' '
  set -f
  left=$1 at= name= links=0
  case $left in /*) ;; *) exit 1 ;; esac
  while :; do
    set -- $(ls -ldn "$at/$name" 2>/dev/null)
    case ${3:-none} in 0|"$me") ;; *) exit 1 ;; esac
    case $1 in
      l*)
        links=$((links + 1))
        [ $links -le 40 ] && to=$(readlink "$at/$name") || exit 1
        case $to in /*) at= ;; esac
        left=$to/$left ;;
      d????????[tT]*) at=$at${name:+/$name} ;;
      ?????w*|????????w*) exit 1 ;;
      [d-]*) at=$at${name:+/$name} ;;
      *) exit 1 ;;
    esac
    name=
    while [ -z "$name" ]; do
      case $left in '') printf '%s\n' "${at:-/}"; exit 0 ;; esac
      name=${left%%/*}
      case $left in */*) left=${left#*/} ;; *) left= ;; esac
      case $name in .) name= ;; ..) name= at=${at%/*} ;; esac
    done
  done
)
"#;

/// Everything in a function: a shell that reads its script ahead has then read all of it before it runs, and
/// what is sent later is the program's.
const SCRIPT: &str = r#"say() { printf '\001PLIMSOLL @NONCE@ %s\n' "$1"; }
run() { cd / && LC_ALL=C && export LC_ALL && exec "$1" agent --nonce @NONCE@ --lease @LEASE@; }
is_same() { case $(sha256sum <"$1" 2>/dev/null) in "@SHA256@ "*) ;; *) false ;; esac; }
is_it() { [ -f "$1" ] && [ -x "$1" ] && is_same "$1" && [ "$("$1" agent --identity </dev/null 2>/dev/null)" = @IDENTITY@ ]; }
places() {
  u=plimsoll-$me
  for d in "${XDG_CACHE_HOME:+$XDG_CACHE_HOME/plimsoll}" "${HOME:+$HOME/.cache/plimsoll}" \
    "${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/plimsoll}" "/var/tmp/$u" "${TMPDIR:+$TMPDIR/$u}"; do
    case $d in /*) printf '%s\n' "$d" ;; esac
  done
}
make() {
  if [ ! -e "$1" ] && [ ! -L "$1" ]; then
    [ -z "${1%/*}" ] || make "${1%/*}" >/dev/null || return 1
    mkdir "$1" 2>/dev/null
  fi
  way "$1"
}
is_own() { [ -d "$1" ] && [ -O "$1" ] && chmod 700 "$1" 2>/dev/null; }
fits() {
  f=$(df -Pk "$1" 2>/dev/null | awk 'END { print $4 }')
  [ "${f:-0}" -gt @KIB@ ]
}
main() {
  umask 077
  me=$(id -u)
  for p in @PATH@ "$(command -v plimsoll)"; do
    if p=$(way "$p") && is_it "$p"; then run "$p"; fi
  done
  set -f
  IFS='
'
  for d in $(places); do
    if p=$(way "$d/agents/@IDENTITY@/plimsoll") && is_it "$p"; then run "$p"; fi
  done
  why=
  for d in $(places); do
    if ! c=$(make "$d") || ! is_own "$c" || ! a=$(make "$c/agents") || ! is_own "$a" \
      || ! b=$(make "$a/@IDENTITY@") || ! is_own "$b"; then
      why="$why; $d cannot be written by this user alone"; continue
    fi
    p=$b/plimsoll; n=$b/new.$$
    if ! printf '#!/bin/sh\nexit 0\n' >"$n" 2>/dev/null || ! chmod 700 "$n"; then
      why="$why; $d is full"; rm -f "$n"; continue
    fi
    if ! "$n" </dev/null 2>/dev/null; then
      why="$why; $d does not let programs run (noexec)"; rm -f "$n"; continue
    fi
    if ! fits "$a"; then
      why="$why; $d has no room for @KIB@ KiB"; rm -f "$n"; continue
    fi
    if ! command -v sha256sum >/dev/null; then
      rm -f "$n"; say "fail sha256sum, which compares programs, is not installed there"; exit 1
    fi
    say "want $(uname -m)"
    if ! head -c @BYTES@ >"$n"; then
      rm -f "$n"; say "fail cannot write the program to $d"; exit 1
    fi
    if ! is_same "$n"; then
      rm -f "$n"; say "fail the copy of plimsoll in $d is not what was sent"; exit 1
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

/// The script if the user names the program, of whichever build it is.
const SCRIPT_OF_PATH: &str = r#"main() {
  LC_ALL=C; export LC_ALL
  me=$(id -u)
  if [ ! -f @PATH@ ] || [ ! -x @PATH@ ]; then
    printf '\001PLIMSOLL @NONCE@ fail %s\n' @PATH@" is no program there"; exit 1
  fi
  if p=$(way @PATH@); then cd / && exec "$p" agent --nonce @NONCE@ --lease @LEASE@; fi
  printf '\001PLIMSOLL @NONCE@ fail %s\n' @PATH@" can be exchanged by others than root and the user who logs in"; exit 1
}
main
"#;

/// Returns the script for an agent that ends when it hears nothing for `lease`, and opens with `nonce`.
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
    format!("{WAY}{script}")
        .replace("@NONCE@", nonce)
        .replace("@LEASE@", &lease.as_secs().to_string())
        .replace("@IDENTITY@", program.identity)
        .replace("@SHA256@", &program.sha256)
        .replace("@KIB@", &program.bytes.div_ceil(1024).to_string())
        .replace("@BYTES@", &program.bytes.to_string())
        .replace("@KEPT@", &(BUILDS_KEPT + 1).to_string())
        // Last: nothing in it is replaced.
        .replace("@PATH@", &quoted(&path.unwrap_or_default()))
}

/// Quotes a text as one word of a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::{fs, thread};

    use super::super::preamble::{Preamble, Word};
    use super::super::program::sha256;
    use super::*;

    const NONCE: &str = "00ff";

    /// A stand-in for the program: says who it is, or what it was started with.
    const PROGRAM: &str =
        "#!/bin/sh\ncase $2 in --identity) echo b1;; *) echo \"ran $0 $*\";; esac\n";

    fn program(text: &str, path: Option<&Path>) -> Program {
        let sha256 = sha256(text.as_bytes()).unwrap();
        let (bytes, path) = (text.len() as u64, path.map(Path::to_owned));
        Program { identity: "b1", bytes, sha256, path }
    }

    struct Said {
        words: Vec<Word>,
        /// Text after the words.
        rest: String,
    }

    /// Runs the script with these directories for copies, and sends the program when it is wanted.
    fn run(own: Option<&Path>, path: Option<&str>, cache: &Path) -> Said {
        run_at(own, path, &[("XDG_CACHE_HOME", cache)])
    }

    /// Runs the script with these variables.
    fn run_at(own: Option<&Path>, path: Option<&str>, variables: &[(&str, &Path)]) -> Said {
        let program = program(PROGRAM, own);
        let mut shell = Command::new("/bin/sh")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(variables.iter().copied())
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

    /// Returns a program with another content, which leaves a mark where it is run, and says what is expected.
    fn planted(mark: &Path) -> String {
        format!(
            "#!/bin/sh\n: > '{}'\ncase $2 in --identity) echo b1;; *) echo \"ran $0 $*\";; esac\n",
            mark.display()
        )
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_has_another_hash_is_not_run_whatever_it_says_of_itself() {
        let folder = tempfile::tempdir().unwrap();
        let (own, mark) = (folder.path().join("own"), folder.path().join("mark"));
        install(&own, &planted(&mark));
        let copy = folder.path().join("plimsoll/agents/b1/plimsoll");
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        install(&copy, &planted(&mark));
        let said = run(Some(&own), None, folder.path());
        assert!(matches!(said.words[..], [Word::Want(_)]), "{:?}", said.words);
        assert!(!mark.exists());
        assert_eq!(said.rest, format!("ran {} agent --nonce 00ff --lease 10\n", copy.display()));
        assert_eq!(fs::read_to_string(copy).unwrap(), PROGRAM);
    }

    #[test]
    fn what_others_could_exchange_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, shared) = (folder.path().join("cache"), folder.path().join("shared"));
        let open = shared.join("open");
        fs::create_dir_all(&open).unwrap();
        let own = open.join("plimsoll");
        install(&own, PROGRAM);
        // With the sticky bit no other user can replace files of this user.
        for (dir_mode, file_mode, is_run) in [
            (0o755, 0o700, true),
            (0o1777, 0o700, true),
            (0o777, 0o700, false),
            (0o775, 0o700, false),
            (0o755, 0o722, false),
            (0o755, 0o720, false),
        ] {
            set_mode(&shared, dir_mode);
            set_mode(&own, file_mode);
            let said = run(Some(&own), None, &cache);
            assert_eq!(
                said.rest.contains(own.to_str().unwrap()),
                is_run,
                "{dir_mode:o} {file_mode:o}"
            );
            let said = run(None, own.to_str(), &cache);
            let is_refused = matches!(&said.words[..], [Word::Fail(why)] if why.contains("can be exchanged by others"));
            assert_eq!(is_refused, !is_run, "{dir_mode:o} {file_mode:o}: {:?}", said.words);
        }
    }

    #[test]
    fn links_are_followed_to_where_they_lead_and_that_is_what_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, real) = (folder.path().join("cache"), folder.path().join("real dir"));
        fs::create_dir(&real).unwrap();
        install(&real.join("plimsoll"), PROGRAM);
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        symlink("./second/../second", &first).unwrap();
        symlink(&real, &second).unwrap();
        let said = run(Some(&first.join("plimsoll")), None, &cache);
        assert!(said.rest.contains("real dir/plimsoll agent"), "{}", said.rest);
        set_mode(&real, 0o777);
        let said = run(Some(&first.join("plimsoll")), None, &cache);
        assert!(said.rest.contains("/cache/plimsoll/agents/b1/plimsoll agent"), "{}", said.rest);
        // A loop has an end.
        let round = folder.path().join("round");
        symlink("round", &round).unwrap();
        assert!(run(Some(&round), None, &cache).rest.contains("/cache/plimsoll/"));
    }

    #[test]
    fn no_copy_goes_where_others_could_exchange_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let open = folder.path().join("open");
        fs::create_dir_all(&open).unwrap();
        set_mode(&open, 0o777);
        // Below an open directory, and behind a link out of one.
        let behind = folder.path().join("behind");
        symlink(open.join("target"), &behind).unwrap();
        fs::create_dir(open.join("target")).unwrap();
        for place in [open.join("a/cache"), behind] {
            let said = run_at(None, None, &[("XDG_CACHE_HOME", &place), ("HOME", &home)]);
            let copy = home.join(".cache/plimsoll/agents/b1/plimsoll");
            assert!(said.rest.contains(copy.to_str().unwrap()), "{}", said.rest);
            fs::remove_dir_all(&home).unwrap();
            assert!(!open.join("a").exists());
            assert_eq!(fs::read_dir(open.join("target")).unwrap().count(), 0);
        }
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
        let text = script(&program("x", None), None, NONCE, Duration::from_secs(1));
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
