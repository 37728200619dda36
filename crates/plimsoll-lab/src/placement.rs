//! The CPUs of each part of a laboratory.

use plimsoll_sys::affinity::usable_cpus;

/// CPUs of each part; an empty list leaves the choice to the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The system under test; never shared with the others where there are two CPUs.
    pub sut: Vec<u32>,
    /// Clients.
    pub clients: Vec<u32>,
    /// Backends.
    pub backends: Vec<u32>,
}

impl Placement {
    /// Gives half of `cpus` to the SUT; the clients and the backends share the other half, which is a
    /// quarter each from four CPUs on.
    pub fn of(cpus: &[u32]) -> Self {
        Self::with_sut(cpus, cpus.len() / 2).unwrap_or_default()
    }

    /// Gives the last `count` of `cpus` to the SUT. Clients and backends share the rest, or all CPUs if there is no
    /// rest. Returns `None` if `count` is 0 or more than the number of CPUs.
    pub fn with_sut(cpus: &[u32], count: usize) -> Option<Self> {
        if count == 0 || count > cpus.len() {
            return None;
        }
        let (others, sut) = cpus.split_at(cpus.len() - count);
        let (clients, backends) = match others {
            [] => (cpus, cpus),
            [_] => (others, others),
            more => more.split_at(more.len().div_ceil(2)),
        };
        Some(Self { sut: sut.to_vec(), clients: clients.to_vec(), backends: backends.to_vec() })
    }

    /// Returns two halves of `cpus` of the same size, in which two laboratories are loaded at the same time. In a half
    /// of one CPU all parts share it. Returns `None` for fewer than two CPUs.
    pub fn halves(cpus: &[u32]) -> Option<[Self; 2]> {
        let half = cpus.len() / 2;
        let of = |half: &[u32]| match half {
            [_] => Self { sut: half.to_vec(), clients: half.to_vec(), backends: half.to_vec() },
            more => Self::of(more),
        };
        (half > 0).then(|| [of(&cpus[..half]), of(&cpus[half..2 * half])])
    }

    /// Returns all CPUs, in an order in which corresponding CPUs of two halves have the same part.
    pub fn cpus(&self) -> Vec<u32> {
        let mut all = [&self.clients[..], &self.backends, &self.sut].concat();
        all.dedup();
        all
    }

    /// Returns the placement on this host.
    pub fn of_host() -> Self {
        Self::of(&usable_cpus())
    }

    /// Returns the CPUs that neither the SUT nor the clients have: displays may use them.
    pub fn beside(&self) -> Vec<u32> {
        let is_free = |cpu: &&u32| !self.sut.contains(cpu) && !self.clients.contains(cpu);
        self.backends.iter().filter(is_free).copied().collect()
    }

    /// Returns one line for the report that begins with the text about backends.
    pub(crate) fn note(&self, backends: &str) -> String {
        if self.sut.is_empty() {
            return format!(
                "{backends}; one CPU: SUT, clients and backends share it, so the figure is a lower \
                 bound"
            );
        }
        let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        format!(
            "{backends}; CPUs: SUT {}, clients {}, backends {}",
            list(&self.sut),
            list(&self.clients),
            list(&self.backends)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sut_has_as_many_as_are_asked_for() {
        for (count, sut, clients, backends) in [
            (1, vec![3], vec![0, 1], vec![2]),
            (3, vec![1, 2, 3], vec![0], vec![0]),
            (4, vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![0, 1, 2, 3]),
        ] {
            let placed = Placement::with_sut(&[0, 1, 2, 3], count);
            assert_eq!(placed, Some(Placement { sut, clients, backends }), "{count}");
        }
        assert_eq!(Placement::with_sut(&[0], 2), None);
        assert_eq!(Placement::with_sut(&[0], 0), None);
    }

    #[test]
    fn halves_are_alike_and_share_nothing() {
        assert_eq!(Placement::halves(&[3]), None);
        for (cpus, first, second) in [
            (vec![0, 1], vec![0], vec![1]),
            (vec![0, 1, 2], vec![0], vec![1]),
            (vec![0, 4, 1, 5], vec![0, 4], vec![1, 5]),
            (vec![0, 1, 2, 3, 4, 5, 6, 7], vec![0, 1, 2, 3], vec![4, 5, 6, 7]),
        ] {
            let halves = Placement::halves(&cpus).expect("two or more");
            assert_eq!([halves[0].cpus(), halves[1].cpus()], [first, second]);
            let sizes =
                halves.map(|half| (half.sut.len(), half.clients.len(), half.backends.len()));
            assert_eq!(sizes[0], sizes[1], "{cpus:?}");
            assert!(sizes[0].0 > 0 && sizes[0].1 > 0 && sizes[0].2 > 0, "{cpus:?}");
        }
    }

    #[test]
    fn what_shows_a_run_stays_off_its_cpus() {
        for (cpus, beside) in [(1, vec![]), (2, vec![]), (3, vec![1]), (8, vec![2, 3])] {
            assert_eq!(Placement::of(&(0..cpus).collect::<Vec<_>>()).beside(), beside, "{cpus}");
        }
    }

    #[test]
    fn the_sut_shares_no_cpu_where_there_are_two() {
        for (cpus, sut, clients, backends) in [
            (1, vec![], vec![], vec![]),
            (2, vec![1], vec![0], vec![0]),
            (3, vec![2], vec![0], vec![1]),
            (4, vec![2, 3], vec![0], vec![1]),
            (8, vec![4, 5, 6, 7], vec![0, 1], vec![2, 3]),
        ] {
            let all: Vec<u32> = (0..cpus).collect();
            assert_eq!(Placement::of(&all), Placement { sut, clients, backends }, "{cpus} CPUs");
        }
    }
}
