//! (replaced on merge)
use crate::error::Result;
use crate::plan::{Memory, Origin, Policy, Refresh};
use crate::sql::duration::parse_duration;
use crate::sql::statement::{Query, SqlOption};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults;

#[derive(Debug, Clone, Default)]
pub struct Retentions {
    options: Vec<SqlOption>,
}

impl Retentions {
    pub fn none() -> Self {
        Self::default()
    }
    pub fn new(_: &Defaults, options: &[SqlOption], _: &Query) -> Result<Self> {
        Ok(Retentions { options: options.to_vec() })
    }
    pub fn is_bounded(&self) -> bool {
        self.options.iter().any(|o| o.name.starts_with("state_ttl") && o.value != "never")
    }
    pub fn of(&self, name: Option<&str>) -> Memory {
        let find = |base: &str| {
            let own = name.map(|name| format!("{base}.{name}"));
            let option =
                self.options.iter().find(|o| Some(&o.name) == own.as_ref()).or_else(|| self.options.iter().find(|o| o.name == base));
            option.map(|o| o.value.clone())
        };
        let ms = |base| find(base).and_then(|v| parse_duration(&v).unwrap()).map(|ms| ms as u64);
        Memory {
            ttl: ms("state_ttl"),
            ttl_max: ms("state_ttl_max"),
            refresh: if find("ttl_refresh").as_deref() == Some("create") { Refresh::Create } else { Refresh::Write },
            policy: match find("on_expiry").as_deref() {
                Some("keep") => Policy::Keep,
                Some("retract") => Policy::Retract,
                _ => Policy::Forget,
            },
            origin: Origin::View("state_ttl".into()),
        }
    }
    pub fn check_all_used(&self) -> Result<()> {
        Ok(())
    }
}
