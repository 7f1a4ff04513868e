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
        let pairs = || old_all.iter().zip(&new_all);
        (old_all.len() == new_all.len() && pairs().all(|(old, new)| same(old, new))).then_some(())?;
        let to_new = |(old, new): (&Arrangement, &Arrangement)| Some((old.fingerprint(), (new.retention?, new.memory.clone())));
        (self.with_figures(&pairs().filter_map(to_new).collect()).fingerprint() == new.fingerprint()).then_some(())?;
        // By which way the old figures were come to is not said of the new ones.
        let said = |retention: Option<Retention>| retention.map(|retention| Retention { history: 0, ..retention });
        Some(pairs().filter(|(old, new)| said(old.retention) != said(new.retention)).filter_map(to_new).collect())
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
