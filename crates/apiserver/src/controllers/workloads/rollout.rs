//! The arithmetic of a rolling update: the numbers of new and old pods.
//!
//! Pure functions, by upstream's rules (1.36, `controller/deployment`).

use crate::builtin::tree::get;
use serde_json::Value;

/// The resolved `maxSurge` and `maxUnavailable` of a Deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Margin {
    pub(super) surge: usize,
    pub(super) unavailable: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// From its spec.
    pub(super) replicas: usize,
    /// From its status.
    pub(super) available: usize,
}

impl Margin {
    /// For a Deployment of that many pods. Both zero would never progress, so unavailable is then 1.
    pub(super) fn of(deployment: &Value, wanted: usize) -> Self {
        if get(deployment, "spec.strategy.type") == "Recreate" {
            return Self {
                surge: 0,
                unavailable: 0,
            };
        }
        let scaled = |name: &str, up: bool| {
            let value = &get(deployment, "spec.strategy.rollingUpdate")[name];
            share(value, wanted, up)
        };
        let margin = Self {
            surge: scaled("maxSurge", true),
            unavailable: scaled("maxUnavailable", false).min(wanted),
        };
        if margin.surge == 0 && margin.unavailable == 0 {
            return Self {
                unavailable: 1,
                ..margin
            };
        }
        margin
    }
}

fn share(value: &Value, whole: usize, up: bool) -> usize {
    if let Some(number) = value.as_u64() {
        return usize::try_from(number).unwrap_or(usize::MAX);
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
    let Some(percent) = percent.and_then(|p| p.parse::<usize>().ok()) else {
        return 0;
    };
    let product = whole.saturating_mul(percent);
    if up { product.div_ceil(100) } else { product / 100 }
}

/// The size of the new ReplicaSet now. `all` counts the replicas of all ReplicaSets, including this one.
pub(super) fn new_size(wanted: usize, own: usize, all: usize, margin: Margin) -> usize {
    if own > wanted {
        return wanted;
    }
    let room = (wanted + margin.surge).saturating_sub(all);
    own + room.min(wanted - own)
}

/// The sizes of the old ReplicaSets now. The oldest shrink first, and unavailable pods before available
/// ones.
pub(super) fn old_sizes(wanted: usize, new: Size, old: &[Size], margin: Margin) -> Vec<usize> {
    let mut sizes: Vec<usize> = old.iter().map(|size| size.replicas).collect();
    let all: usize = new.replicas + sizes.iter().sum::<usize>();
    let needed = wanted.saturating_sub(margin.unavailable);
    let new_missing = new.replicas.saturating_sub(new.available);
    let mut give = all.saturating_sub(needed + new_missing);
    for (size, known) in sizes.iter_mut().zip(old) {
        let useless = size.saturating_sub(known.available).min(give);
        *size -= useless;
        give -= useless;
    }
    let available: usize = new.available + old.iter().map(|size| size.available).sum::<usize>();
    let mut give = give.min(available.saturating_sub(needed));
    for size in &mut sizes {
        let less = (*size).min(give);
        *size -= less;
        give -= less;
    }
    sizes
}

/// A ReplicaSet that is scaled in the middle of a rollout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) replicas: usize,
    /// The most pods of the Deployment when this ReplicaSet was last sized.
    pub(super) most_before: Option<usize>,
}

/// The sizes after a scale in the middle of a rollout: each part keeps its share. `parts` are the active
/// ReplicaSets, oldest first; `pods` counts the present pods.
pub(super) fn scaled(wanted: usize, parts: &[Part], pods: usize, margin: Margin) -> Vec<usize> {
    let signed = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let most = match wanted {
        0 => 0,
        wanted => wanted + margin.surge,
    };
    let all: usize = parts.iter().map(|part| part.replicas).sum();
    let change = signed(most) - signed(all);
    let mut order: Vec<usize> = (0..parts.len()).collect();
    // The largest first; of equal ones the newer grows, the older shrinks.
    order.sort_by_key(|&nth| {
        let age = if change > 0 { parts.len() - nth } else { nth };
        (std::cmp::Reverse(parts[nth].replicas), age)
    });
    let mut sizes: Vec<i64> = parts.iter().map(|part| signed(part.replicas)).collect();
    let mut left = change;
    for &nth in &order {
        let size = sizes[nth];
        let before = signed(parts[nth].most_before.filter(|n| *n > 0).unwrap_or(pods));
        let share = match (most, before) {
            (0, _) => -size,
            (_, 0) => 0,
            // rounded
            _ => (2 * size * signed(most) + before) / (2 * before) - size,
        };
        let share = if change > 0 {
            share.min(left)
        } else {
            share.max(left)
        };
        sizes[nth] += share;
        left -= share;
    }
    if let Some(&largest) = order.first() {
        sizes[largest] += left;
    }
    sizes
        .into_iter()
        .map(|size| usize::try_from(size).unwrap_or(0))
        .collect()
}
