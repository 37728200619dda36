//! A cluster of Slurm: munge, slurmctld, and a slurmd in each of three network namespaces. All of it is in namespaces
//! of the test's, also of processes: it is gone with the script that started it.

use crate::plimsoll::{Finished, Plimsoll};
use crate::program;
use crate::ssh_hosts::{NETWORK, is_possible};

/// Nodes claim two CPUs, whatever the machine has. Names are those of `hosts`, since a namespace has no resolver.
const CLUSTER: &str = r#"
mount -t proc proc /proc
D=$PWD
hostname ctl && mkdir -p state munge
printf '%s\n' '127.0.0.1 localhost' '10.77.0.254 ctl' '10.77.0.1 n1' '10.77.0.2 n2' '10.77.0.3 n3' > hosts
mount --bind hosts /etc/hosts
head -c 128 /dev/urandom > munge/key && chmod 600 munge/key
munged --foreground --force --key-file=$D/munge/key --socket=$D/munge/socket --pid-file=$D/munge/pid \
  --log-file=$D/munge/log --seed-file=$D/munge/seed 2> munge/err < /dev/null &
printf '%s\n' ClusterName=test 'SlurmctldHost=ctl(10.77.0.254)' SlurmUser=root SlurmdUser=root AuthType=auth/munge \
  AuthInfo=socket=$D/munge/socket CredType=cred/munge ProctrackType=proctrack/linuxproc TaskPlugin=task/none \
  SelectType=select/cons_tres SelectTypeParameters=CR_Core MpiDefault=none ReturnToService=2 MailProg=/bin/true \
  SlurmdParameters=config_overrides StateSaveLocation=$D/state SlurmdSpoolDir=$D/spool.%n \
  SlurmctldPidFile=$D/slurmctld.pid SlurmdPidFile=$D/slurmd.%n.pid SlurmctldLogFile=$D/slurmctld.log \
  SlurmdLogFile=$D/slurmd.%n.log JobCompType=jobcomp/none KillWait=5 \
  'NodeName=n[1-3] NodeAddr=10.77.0.[1-3] CPUs=2 RealMemory=500' \
  'PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE' > slurm.conf
export SLURM_CONF=$D/slurm.conf
until [ -S munge/socket ]; do sleep 0.05; done
slurmctld -D > /dev/null 2>&1 < /dev/null &
for i in 1 2 3; do
  mkdir -p spool.n$i
  # ip netns would hide the control groups, without which slurmd does not start.
  nsenter --net=/run/netns/h$i unshare -u sh -c "hostname n$i; exec slurmd -D -N n$i" > /dev/null 2>&1 < /dev/null &
done
for n in $(seq 300); do
  [ "$(sinfo -h -o %T 2> /dev/null | sort -u)" = idle ] && break
  [ $n = 300 ] && { tail -n 20 slurm*.log munge/err >&2; exit 1; }
  sleep 0.2
done
serve
"#;

/// Submits the sample script with these arguments for plimsoll and waits for the job, while `meanwhile`, a bash script,
/// may do something to `$P`, which waits for it. What the job printed is standard output, and its exit code the
/// code. `None` if this host does not allow namespaces.
pub fn submit(arguments: &[&str], meanwhile: &str) -> Option<Finished> {
    for name in ["munged", "slurmctld", "slurmd", "sbatch", "srun"] {
        program::installed(name);
    }
    if !is_possible() {
        return None;
    }
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/slurm/plimsoll.sbatch");
    let script = format!(
        "N=3 DAEMON=slurmd{NETWORK}{CLUSTER}\nexport PLIMSOLL=$0\n\
         sbatch --quiet --wait --nodes=3 --output=job.log '{sample}' \"$@\" < /dev/null & P=$!\n\
         {meanwhile}\nwait $P; C=$?\nleft; cat job.log; exit $C"
    );
    Some(Plimsoll::unshared("-nmupf", &script, arguments).run())
}
