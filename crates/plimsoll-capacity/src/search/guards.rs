//! The guards: they read the evidence and say what may void it. The server is gone (`silence`), it is
//! still in the shadow of an overload (`shadow`), or its capacity went to another level (`levels`).

use super::levels::Levels;
use super::settings::Limits;
use super::shadow::Shadow;
use super::silence::Silence;

/// All guards of a search.
#[derive(Clone, Debug)]
pub(super) struct Guards {
    pub(super) silence: Silence,
    pub(super) shadow: Shadow,
    pub(super) levels: Levels,
}

impl Guards {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            silence: Silence::default(),
            shadow: Shadow::new(limits.rest, limits.rest_max),
            levels: Levels::default(),
        }
    }
}
