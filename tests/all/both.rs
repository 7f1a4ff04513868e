//! SQL that is said to both engines, where they have different words for it.

/// An expression in the words of both engines.
#[derive(Debug, Clone)]
pub struct Both {
    pub weir: String,
    pub sqlite: String,
}

/// The expression that these words are.
pub fn both(weir: impl Into<String>, sqlite: impl Into<String>) -> Both {
    Both { weir: weir.into(), sqlite: sqlite.into() }
}

/// `one op other`.
pub fn joined(one: &Both, op: &str, other: &Both) -> Both {
    both(format!("{} {op} {}", one.weir, other.weir), format!("{} {op} {}", one.sqlite, other.sqlite))
}
