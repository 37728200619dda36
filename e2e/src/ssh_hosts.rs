//! Hosts as network namespaces behind a bridge, each with an sshd and its own cache. All of it is in a
//! network and a mount namespace of the test's: it is gone with the last process in them.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::plimsoll::{Finished, Plimsoll};
use crate::program;

/// URL of a server that every host reaches.
pub const URL: &str = "http://10.77.0.254:8080/";
/// The hosts.
pub const HOSTS: &str = "10.77.0.[1-3]";

/// `$N` hosts, numbered from 1: they reach each other and 10.77.0.254, where the servers are. `agents N` prints the
/// agents of a host, `left` whatever runs on the hosts beside their `$DAEMON`, once that does not change any more.
pub(crate) const NETWORK: &str = r#"
names() { for p in $(ip netns pids h$1); do read -r name < /proc/$p/comm && echo "$p $name"; done 2> /dev/null; }
agents() { names $1 | while read -r p name; do case $name in plimsoll*) echo $p ;; esac; done; }
others() { for i in $(seq $N); do names $i; done | while read -r p name; do [ "$name" = $DAEMON ] || echo "$name"; done; }
left() { for n in $(seq 75); do [ -z "$(others)" ] && return; sleep 0.2; done; echo "LEFT: $(others)" >&2; }
middle() { until [ -s run/intervals.jsonl ]; do kill -0 $P || return; sleep 0.05; done; }
mount -t tmpfs none /run && mkdir -p /run/netns
ip link set lo up
ip link add br0 type bridge && ip addr add 10.77.0.254/24 dev br0 && ip link set br0 up
for i in $(seq $N); do
  ip netns add h$i
  ip link add v$i type veth peer name eth0 netns h$i && ip link set v$i master br0 up
  ip -n h$i addr add 10.77.0.$i/24 dev eth0 && ip -n h$i link set eth0 up && ip -n h$i link set lo up
done
serve() {
  "$0" serve --http 10.77.0.254:8080 --no-ui > /dev/null 2>&1 < /dev/null &
  until (exec 3<> /dev/tcp/10.77.0.254/8080) 2> /dev/null; do sleep 0.05; done
}
"#;

/// Keys, sshd, a server. The first host does not have the program.
const BED: &str = r#"
mkdir -p /run/sshd keys
for k in id host stranger; do ssh-keygen -q -t ed25519 -N '' -f keys/$k; done
cp keys/id.pub keys/authorized
D=$PWD
for i in $(seq $N); do
  echo "10.77.0.$i $(cut -d' ' -f1,2 keys/host.pub)" >> keys/known
  printf '%s\n' "HostKey $D/keys/host" "AuthorizedKeysFile $D/keys/authorized" 'StrictModes no' \
    'UsePAM no' 'PidFile none' "SetEnv XDG_CACHE_HOME=$D/cache$i" > keys/sshd$i
  hide=:
  if [ $i = 1 ]; then hide="mount -t tmpfs none $(dirname "$0")"; fi
  ip netns exec h$i sh -c "$hide; exec $(command -v sshd || echo /usr/sbin/sshd) -D -e -f $D/keys/sshd$i" \
    2> keys/log$i < /dev/null > /dev/null &
done
for i in $(seq $N); do
  until (exec 3<> /dev/tcp/10.77.0.$i/22) 2> /dev/null; do sleep 0.05; done
done
serve
"#;

/// A quick search over twenty hosts takes less than 4 minutes.
const PATIENCE: Duration = Duration::from_secs(400);

/// Options of ssh with which its first key logs in.
pub const LOGIN: [&str; 4] =
    ["--ssh-option", "IdentityFile=keys/id", "--ssh-option", "UserKnownHostsFile=keys/known"];

/// Runs plimsoll from the host of the server, while `meanwhile`, a bash script, may do something to `$P`, its
/// process, or to the three hosts. `None` if this host does not allow namespaces.
pub fn run(arguments: &[&str], meanwhile: &str) -> Option<Finished> {
    run_with(3, "", arguments, meanwhile)
}

/// Runs plimsoll with this many hosts, and with a script that is run before.
pub fn run_with(hosts: u32, before: &str, arguments: &[&str], meanwhile: &str) -> Option<Finished> {
    if !is_possible() {
        return None;
    }
    let script = format!(
        "N={hosts} DAEMON=sshd{NETWORK}{BED}\n{before}\n\"$0\" \"$@\" < /dev/null & P=$!\n{meanwhile}\nwait $P; C=$?\nleft\n\
         kill $(jobs -p) 2> /dev/null; exit $C"
    );
    program::installed("sshd");
    Some(Plimsoll::unshared("-nm", &script, arguments).start().finish_within(PATIENCE))
}

/// Reports whether this host allows namespaces and a bridge between them.
pub fn is_possible() -> bool {
    let mut command = Command::new(program::installed("unshare"));
    command.args(["-nm", "sh", "-c", "test $(id -u) = 0 && ip link add br0 type bridge"]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let is_possible = command.status().is_ok_and(|status| status.success());
    if !is_possible {
        eprintln!("SKIPPED: hosts in network namespaces need root and a bridge");
    }
    is_possible
}
