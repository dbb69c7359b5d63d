// SPDX-License-Identifier: Apache-2.0
//! The end of large reads, which the kernel's own sampling leaves out: whether and when a program
//! looks at it.

/// Consecutive reads of the counts in which the kernel left out nothing, after which the program is
/// detached: a minute, as an agent reads them once a second.
const QUIET_LOOKS: u32 = 60;

/// A program that looks at the pages of a read that the kernel leaves out. Every read of every
/// cgroup passes through it, so it is attached only while there are such reads.
#[derive(Debug)]
pub struct Rest<Attached> {
    attached: Option<Attached>,
    /// Pages that the kernel had left out when the counts were last read.
    left_out: u64,
    quiet_looks: u32,
    used: bool,
    refused: bool,
}

impl<Attached> Default for Rest<Attached> {
    fn default() -> Self {
        Self { attached: None, left_out: 0, quiet_looks: 0, used: false, refused: false }
    }
}

impl<Attached> Rest<Attached> {
    /// Takes the number of pages that the kernel left out so far, of all cgroups together. Pages
    /// left out until the program is attached, or if it cannot be, are lost and counted as losses.
    pub fn follow(&mut self, left_out: u64, attach: impl FnOnce() -> Result<Attached, String>) {
        let grown = left_out > std::mem::replace(&mut self.left_out, left_out);
        self.quiet_looks = if grown { 0 } else { self.quiet_looks.saturating_add(1) };
        if self.quiet_looks >= QUIET_LOOKS {
            self.attached = None;
        }
        if grown {
            self.begin(attach);
        }
    }

    /// Attaches the program, unless it is attached or cannot be.
    pub fn begin(&mut self, attach: impl FnOnce() -> Result<Attached, String>) {
        if self.attached.is_some() || self.refused {
            return;
        }
        match attach() {
            Ok(attached) => (self.attached, self.used) = (Some(attached), true),
            Err(reason) => {
                tracing::warn!(reason, "the end of large reads is not sampled");
                self.refused = true;
            }
        }
    }

    /// Whether it was ever attached.
    pub fn used(&self) -> bool {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_attached_while_the_kernel_leaves_out_pages() {
        let mut rest = Rest::default();
        let mut follow = |left_out| {
            rest.follow(left_out, || Ok(()));
            (rest.attached.is_some(), rest.used())
        };
        assert_eq!(follow(0), (false, false));
        assert_eq!(follow(10), (true, true));
        assert!((1..QUIET_LOOKS).all(|_| follow(10).0));
        assert_eq!(follow(10), (false, true));
        assert_eq!(follow(11), (true, true));
    }

    #[test]
    fn a_refused_program_is_tried_once() {
        let mut rest = Rest::<()>::default();
        let mut attempts = 0;
        for left_out in 1..4 {
            rest.follow(left_out, || {
                attempts += 1;
                Err("no".into())
            });
        }
        assert_eq!((attempts, rest.used()), (1, false));
    }
}
