//! The protocol's revisions.

/// A revision that this program speaks, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Legacy.
    V2025_03_26,
    /// Legacy.
    V2025_06_18,
    /// Legacy.
    V2025_11_25,
    /// Modern: no handshake, no session, everything in the request.
    V2026_07_28,
}

impl Version {
    /// Every revision, newest first: the order in which they are offered.
    pub const ALL: [Self; 4] = [
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
    ];

    /// The newest revision that opens with `initialize`.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// The revision with that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.name() == name)
    }

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether every request stands alone.
    #[must_use]
    pub const fn is_modern(self) -> bool {
        matches!(self, Self::V2026_07_28)
    }

    /// The names of all revisions, as a JSON array.
    pub(super) fn all_as_json() -> String {
        format!(
            "[{}]",
            Self::ALL
                .map(|version| format!("\"{}\"", version.name()))
                .join(",")
        )
    }
}
