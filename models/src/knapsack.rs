// SPDX-License-Identifier: Apache-2.0
//! Solves the core of a multiple-choice knapsack (Kellerer, Pferschy, Pisinger, "Knapsack
//! Problems", 2004, chapter 11): dynamic programming over lists of undominated states, pruned by a
//! Lagrangian bound. The planner calls it in every cycle of every node.
//!
//! The problem has classes of options, and a choice takes one option of each class. Each option has
//! a weight and a loss. The loss is how much less the option is worth than the best option of its
//! class, when each unit of capacity has its dual price. The bound falls by the losses of the
//! options taken. A state whose losses exceed the gap between the bound and the best known value
//! therefore cannot lead to a better solution.

use crate::error::{Error, Result};

/// The options of all classes; a choice takes one option of each class.
#[derive(Debug, Clone, Copy)]
pub struct Classes<'a> {
    /// Weights of the options of all classes, one class after another; not negative.
    pub weights: &'a [i64],
    /// Losses of the same options; not negative.
    pub losses: &'a [f64],
    /// Index at which the options of each class end.
    pub ends: &'a [usize],
}

/// Conditions under which a state is dropped.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The state's losses exceed this value.
    pub loss: f64,
    /// A lighter state is worth at least as much, where values are rounded down to a multiple of
    /// this resolution. 0 compares exact values.
    pub resolution: f64,
    /// More than this many states are left. Those with the least losses stay.
    pub states: usize,
}

/// A partial choice.
#[derive(Debug, Clone, Copy)]
struct State {
    weight: i64,
    loss: f64,
    /// Index of the state of the previous class that this one extends, and the option that was
    /// added.
    from: u32,
    option: u32,
}

impl State {
    fn value(&self, price: f64, resolution: f64) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let value = price * self.weight as f64 - self.loss;
        if resolution > 0.0 { (value / resolution).floor() } else { value }
    }

    /// Returns the sort key. States are sorted by weight; of equal weights, the one with the lower
    /// origin comes first.
    fn order(&self) -> (i64, u32, u32) {
        (self.weight, self.from, self.option)
    }
}

impl Classes<'_> {
    fn check(&self) -> Result<()> {
        let whole = self.ends.last().copied().unwrap_or(0);
        if self.weights.len() != whole || self.losses.len() != whole {
            return Err(Error::argument(
                "ends",
                format!(
                    "ends at {whole}, with {} weights and {} losses",
                    self.weights.len(),
                    self.losses.len()
                ),
            ));
        }
        let starts = std::iter::once(&0).chain(self.ends);
        if starts.zip(self.ends).any(|(start, end)| start >= end) {
            return Err(Error::argument("ends", "must rise: a class has an option at least"));
        }
        Ok(())
    }

    /// Returns the options of a class that are worth more than every lighter one, by rising weight.
    fn options(&self, class: usize, price: f64) -> Vec<State> {
        let start = class.checked_sub(1).map_or(0, |before| self.ends[before]);
        let range = start..self.ends[class];
        let each = (0..).zip(self.weights[range.clone()].iter().zip(&self.losses[range]));
        let one = |(option, (weight, loss)): (u32, (&i64, &f64))| State {
            weight: *weight,
            loss: *loss,
            from: 0,
            option,
        };
        undominated(each.map(one).collect(), price, 0.0)
    }
}

/// Returns the states that are worth more than every lighter one, by rising weight.
fn undominated(mut states: Vec<State>, price: f64, resolution: f64) -> Vec<State> {
    // A stable sort, which takes advantage of runs that are already in order.
    states.sort_by_key(State::order);
    let mut most = f64::NEG_INFINITY;
    states.retain(|state| {
        let value = state.value(price, resolution);
        let exceeds = value > most;
        most = most.max(value);
        exceeds
    });
    states
}

/// Combines every option of the next class with every state, and drops combinations that are too
/// heavy or have too large a loss.
fn extend(states: &[State], options: &[State], heaviest: i64, most: f64) -> Vec<State> {
    let mut found = Vec::with_capacity(states.len() * options.len());
    for option in options {
        for (from, state) in (0..).zip(states) {
            let (weight, loss) = (state.weight + option.weight, state.loss + option.loss);
            if weight > heaviest {
                break;
            }
            if loss <= most {
                found.push(State { weight, loss, from, option: option.option });
            }
        }
    }
    found
}

/// Returns the `count` states with the least losses.
fn least(mut states: Vec<State>, count: usize) -> Vec<State> {
    if states.len() > count {
        states.select_nth_unstable_by(count, |a, b| a.loss.total_cmp(&b.loss));
        states.truncate(count);
        states.sort_unstable_by_key(State::order);
    }
    states
}

/// Returns the option of each class that together are worth most at a `price` per unit of capacity,
/// or `None` if no choice is left.
///
/// # Errors
/// [`Error::Argument`] when the lengths of the arrays contradict one another or a class has no
/// option.
pub fn search(
    classes: Classes<'_>,
    capacity: i64,
    price: f64,
    limits: Limits,
) -> Result<Option<Vec<usize>>> {
    classes.check()?;
    let all = (0..classes.ends.len()).map(|class| classes.options(class, price));
    let mut classes: Vec<(usize, Vec<State>)> = all.enumerate().collect();
    // Classes with few options come first, to keep the number of states low as long as possible.
    classes.sort_by_key(|(_, options)| options.len());
    let lightest = |options: &[State]| options.first().map_or(0, |option| option.weight);
    let mut heaviest = capacity - classes.iter().map(|(_, all)| lightest(all)).sum::<i64>();
    let mut states = vec![State { weight: 0, loss: 0.0, from: 0, option: 0 }];
    let mut steps: Vec<Vec<(u32, u32)>> = Vec::with_capacity(classes.len());
    for (_, options) in &classes {
        heaviest += lightest(options);
        let every = extend(&states, options, heaviest, limits.loss);
        states = least(undominated(every, price, limits.resolution), limits.states);
        steps.push(states.iter().map(|state| (state.from, state.option)).collect());
    }
    // The heaviest state is worth most.
    let Some(mut at) = states.len().checked_sub(1) else {
        return Ok(None);
    };
    let mut found = vec![0; classes.len()];
    for ((class, _), step) in classes.iter().zip(&steps).rev() {
        let (from, option) = step[at];
        (at, found[*class]) = (from as usize, option as usize);
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXACT: Limits = Limits { loss: f64::MAX, resolution: 0.0, states: usize::MAX };

    fn laid_out(classes: &[Vec<(i64, f64)>]) -> (Vec<i64>, Vec<f64>, Vec<usize>) {
        let (weights, losses) = classes.iter().flatten().copied().unzip();
        let ends = classes.iter().scan(0, |end, class| {
            *end += class.len();
            Some(*end)
        });
        (weights, losses, ends.collect())
    }

    fn searched(
        classes: &[Vec<(i64, f64)>],
        capacity: i64,
        price: f64,
        limits: Limits,
    ) -> Option<Vec<usize>> {
        let (weights, losses, ends) = laid_out(classes);
        let classes = Classes { weights: &weights, losses: &losses, ends: &ends };
        search(classes, capacity, price, limits).unwrap()
    }

    /// Returns the weight and value of every possible choice.
    fn choices(classes: &[Vec<(i64, f64)>], price: f64) -> Vec<(i64, f64)> {
        classes.iter().fold(vec![(0, 0.0)], |choices, class| {
            let one_more = |(weight, value): &(i64, f64)| {
                let (weight, value) = (*weight, *value);
                #[allow(clippy::cast_precision_loss)]
                class.iter().map(move |(w, loss)| (weight + w, value + price * *w as f64 - loss))
            };
            choices.iter().flat_map(one_more).collect()
        })
    }

    fn classes() -> impl Strategy<Value = Vec<Vec<(i64, f64)>>> {
        let option = (0_i64..20, (0_u32..40).prop_map(|quarters| f64::from(quarters) / 4.0));
        prop::collection::vec(prop::collection::vec(option, 1..5), 1..6)
    }

    proptest! {
        #[test]
        fn finds_what_enumeration_finds(
            classes in classes(), capacity in 0_i64..60, half in 0_u32..8,
        ) {
            let price = f64::from(half) / 2.0;
            let all = choices(&classes, price);
            let within = all.iter().filter(|(weight, _)| *weight <= capacity);
            let most = within.map(|(_, value)| *value).max_by(f64::total_cmp);
            let found = searched(&classes, capacity, price, EXACT).map(|options| {
                let taken = || classes.iter().zip(&options).map(|(class, option)| class[*option]);
                let weight: i64 = taken().map(|(weight, _)| weight).sum();
                prop_assert!(weight <= capacity);
                #[allow(clippy::cast_precision_loss)]
                Ok(taken().map(|(weight, loss)| price * weight as f64 - loss).sum::<f64>())
            });
            prop_assert_eq!(found.transpose()?, most);
        }

        #[test]
        fn few_states_still_give_a_choice_that_fits(classes in classes(), more in 0_i64..40) {
            let lightest = |class: &Vec<(i64, f64)>| class.iter().map(|one| one.0).min();
            let capacity = classes.iter().filter_map(lightest).sum::<i64>() + more;
            let limits = Limits { states: 2, resolution: 0.5, ..EXACT };
            let options = searched(&classes, capacity, 1.0, limits).unwrap();
            let weight: i64 = classes.iter().zip(options).map(|(class, at)| class[at].0).sum();
            prop_assert!(weight <= capacity);
        }
    }

    #[test]
    fn nothing_that_loses_more_than_allowed_is_chosen() {
        let classes = [vec![(0, 3.0), (5, 0.0)], vec![(0, 1.0)]];
        let limits = Limits { loss: 4.0, ..EXACT };
        assert_eq!(searched(&classes, 4, 1.0, limits), Some(vec![0, 0]));
        assert_eq!(searched(&classes, 4, 1.0, Limits { loss: 3.5, ..EXACT }), None);
    }

    #[test]
    fn classes_that_are_not_laid_out_are_refused() {
        for ends in [vec![1], vec![2, 2], vec![0, 2]] {
            let classes = Classes { weights: &[1, 2], losses: &[0.0, 0.0], ends: &ends };
            let error = search(classes, 3, 0.0, EXACT).unwrap_err();
            assert!(error.to_string().starts_with("ends: "), "{error}");
        }
    }
}
