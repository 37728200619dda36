//! Recorded speeds of a host, second by second.
//!
//! Each figure is the CPU time that a fixed piece of work took in one second, over the median of the
//! recording: a chase of pointers through 256 kB and 1,500 sends and receives of 512 bytes on a
//! socketpair, about 20 times a second at nice 10. Recorded on two CPUs of one cloud VM while other
//! programs of it compiled; the same work on integers in registers took within 5 % of its median in 9
//! of 10 seconds.

/// 120 s of a CPU: a second in ten takes 12 % longer or more.
pub const CALM: &[f64] = &[
    1.12, 1.07, 0.98, 0.99, 1.00, 0.97, 0.97, 0.97, 0.97, 1.17, 1.03, 0.99, 1.01, 1.12, 1.05, 1.06,
    1.24, 1.10, 1.01, 0.99, 0.97, 1.13, 1.00, 1.03, 1.07, 1.10, 1.19, 1.05, 1.00, 1.08, 1.06, 1.02,
    1.06, 1.06, 0.97, 1.07, 1.11, 1.07, 0.99, 1.00, 1.00, 1.26, 1.04, 1.04, 1.15, 1.12, 0.97, 1.01,
    1.03, 1.01, 1.10, 1.12, 1.00, 1.03, 0.99, 0.99, 0.99, 0.97, 0.97, 0.98, 0.97, 0.98, 0.98, 0.98,
    1.00, 1.02, 1.06, 1.19, 1.02, 1.09, 1.00, 1.03, 1.02, 1.06, 1.13, 1.00, 1.02, 1.05, 1.01, 0.99,
    1.04, 1.00, 0.97, 0.98, 0.95, 1.07, 1.06, 0.98, 1.00, 0.96, 0.95, 0.94, 0.94, 0.96, 0.95, 0.92,
    0.92, 1.08, 1.27, 1.00, 0.94, 0.95, 0.96, 1.09, 1.04, 0.97, 0.99, 0.94, 0.96, 0.94, 0.93, 0.92,
    0.93, 0.92, 0.93, 0.93, 0.93, 0.94, 0.93, 0.96,
];

/// 60 s of its sibling: single seconds take up to 48 % longer.
pub const ROUGH: &[f64] = &[
    0.86, 1.00, 1.04, 0.88, 0.86, 1.07, 1.01, 1.11, 1.08, 1.09, 1.00, 1.11, 1.08, 1.34, 0.92, 0.82,
    0.86, 0.88, 0.82, 1.02, 1.48, 0.95, 1.16, 1.04, 0.95, 0.99, 1.09, 1.04, 0.91, 1.04, 1.25, 1.07,
    1.02, 0.98, 0.99, 0.99, 0.96, 1.04, 1.07, 1.06, 0.99, 0.97, 0.95, 0.98, 1.10, 1.00, 1.00, 1.00,
    0.93, 1.01, 0.93, 0.95, 1.03, 0.97, 1.07, 1.00, 0.88, 0.95, 1.02, 0.93,
];
