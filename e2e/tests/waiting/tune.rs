//! `tune apply` and `tune revert` that are killed while they write, at each record of their journal: the settings of a
//! network namespace of its own are afterwards what they were.
//!
//! A file that may not grow beyond a size kills whoever writes on (SIGXFSZ, which no program of ours handles): exactly
//! there, where a SIGKILL from outside would come at some time.

use e2e::plimsoll::Plimsoll;

const SCRIPT: &str = r#"
GOAL="-c 40k --role proxy --rate 1k --destinations 2"
settings() { cat /proc/sys/net/ipv4/* /proc/sys/net/core/* 2> /dev/null; }
apply() { "$0" tune apply $GOAL --yes --journal "$1" > /dev/null; }
revert() { "$0" tune revert --journal "$1" > /dev/null 2>&1; }
size() { stat -c %s "$1"/*/journal.jsonl; }
fail() { echo "$*"; exit 1; }
# The program within a limit of what it may write to a file.
within() { ( ulimit -c 0; exec prlimit --fsize="$1:$1" "$0" "${@:2}" > /dev/null 2>&1 ); }

before=$(settings)
apply whole || fail "the first apply ended with $?"
[ "$before" != "$(settings)" ] || fail "nothing was applied"
applied=$(size whole)
# Where each record begins, one byte into it, and half of it.
points=$(awk 'BEGIN { at = 0 } { print at, at + 1, at + int(length($0) / 2); at += length($0) + 1 }' whole/*/journal.jsonl)
revert whole || fail "the first revert ended with $?"
reverted=$(size whole)
[ "$before" = "$(settings)" ] || fail "not as before without any kill"
killed=0
for point in $points; do
    within "$point" tune apply $GOAL --yes --journal "apply-$point"
    [ $? = 153 ] || fail "apply was not killed at $point"
    revert "apply-$point"
    [ "$before" = "$(settings)" ] || fail "not as before after apply was killed at $point"
    killed=$((killed + 1))
done
for point in $(seq "$applied" $(((reverted - applied) / 8)) $((reverted - 1))); do
    apply "revert-$point" || fail "apply ended with $?"
    within "$point" tune revert --journal "revert-$point"
    [ $? = 153 ] || fail "revert was not killed at $point"
    revert "revert-$point"
    [ "$before" = "$(settings)" ] || fail "not as before after revert was killed at $point"
    killed=$((killed + 1))
done
echo "killed $killed times"
"#;

#[test]
fn who_is_killed_at_any_record_leaves_a_way_back() {
    let finished = Plimsoll::unshared("-n", SCRIPT, &[]).run();
    let (stdout, stderr) = (&finished.stdout, &finished.stderr);
    assert_eq!(finished.code, Some(0), "{stdout}{stderr}");
    let killed = stdout.trim().strip_prefix("killed ").and_then(|rest| rest.strip_suffix(" times"));
    let killed: u32 = killed.and_then(|count| count.parse().ok()).expect("a count");
    // A beginning, and two records for each of several settings, three points in each.
    assert!(killed >= 20, "{stdout}");
}
