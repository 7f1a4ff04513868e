//! Plans whose figures of retention have been changed while they run.

use std::collections::{HashMap, HashSet};

use super::rewrite::Rewrite;
use super::{Arrangement, Fingerprint, Memory, Plan, Retention};

/// What arrangements forget from now on, by what identifies them as they are.
pub type Figures = HashMap<Fingerprint, (Retention, Memory)>;

impl Plan {
    /// What other figures `new` has than this plan, if it has no other differences.
    pub fn other_figures(&self, new: &Plan) -> Option<Figures> {
        let kind = |arrangement: &Arrangement| arrangement.retention.map(|retention| retention.closes);
        let same = |old: &Arrangement, new: &Arrangement| kind(old) == kind(new);
        let (old_all, new_all) = (self.arrangements_under(), new.arrangements_under());
        let figures = |old: &[Arrangement], new: &[Arrangement]| -> Option<Figures> {
            let pairs = old.iter().zip(new);
            (old.len() == new.len() && pairs.clone().all(|(old, new)| same(old, new))).then_some(())?;
            let changed = pairs.filter(|(old, new)| old.retention != new.retention);
            Some(changed.filter_map(|(old, new)| Some((old.fingerprint(), (new.retention?, new.memory.clone())))).collect())
        };
        let figures = figures(&old_all, &new_all)?;
        (self.with_figures(&figures).fingerprint() == new.fingerprint()).then_some(figures)
    }

    /// The same plan with other figures.
    pub fn with_figures(&self, figures: &Figures) -> Plan {
        Altered { figures, plans: HashMap::new() }.plan(self)
    }

    /// All arrangements under it, each once, in the order in which they are read.
    fn arrangements_under(&self) -> Vec<Arrangement> {
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        self.gather(&mut seen, &mut found);
        found
    }

    fn gather(&self, seen: &mut HashSet<Fingerprint>, into: &mut Vec<Arrangement>) {
        if seen.insert(self.fingerprint()) {
            into.extend(self.arrangements().into_iter().cloned());
            self.inputs().into_iter().for_each(|input| input.gather(seen, into));
        }
    }

    /// What identifies this plan, and everything under it, and what identifies the same in a plan of the same shape.
    pub fn renamed(&self, new: &Plan, into: &mut HashMap<Fingerprint, Fingerprint>) {
        let (old_id, new_id) = (self.fingerprint(), new.fingerprint());
        if old_id == new_id || into.insert(old_id, new_id).is_some() {
            return;
        }
        for (old, new) in self.arrangements().into_iter().zip(new.arrangements()) {
            into.insert(old.fingerprint(), new.fingerprint());
        }
        for (old, new) in self.inputs().into_iter().zip(new.inputs()) {
            old.renamed(new, into);
        }
    }
}

/// Plans with other figures, by what identifies them without.
struct Altered<'a> {
    figures: &'a Figures,
    plans: HashMap<(Fingerprint, bool), Plan>,
}

impl Rewrite for Altered<'_> {
    fn plan(&mut self, plan: &Plan) -> Plan {
        let known = (plan.fingerprint(), plan.is_boundary());
        if let Some(altered) = self.plans.get(&known) {
            return altered.clone();
        }
        let altered = Plan::new(plan.node().over(self), plan.row().clone());
        let altered = if plan.is_boundary() { altered.boundary() } else { altered };
        self.plans.insert(known, altered.clone());
        altered
    }

    fn arrangement(&mut self, arrangement: &Arrangement) -> Arrangement {
        let input = self.plan(&arrangement.input);
        match self.figures.get(&arrangement.fingerprint()) {
            Some((retention, memory)) => Arrangement { input, retention: Some(*retention), memory: memory.clone(), ..arrangement.clone() },
            None => Arrangement { input, ..arrangement.clone() },
        }
    }
}
