// SPDX-License-Identifier: Apache-2.0
//! Functions compiled for instructions that not every processor has.

/// Compiles a function for a list of CPU features and calls it. Evaluates to `Some` of its result,
/// or to `None` if the processor lacks one of the features.
///
/// The list appears once, so the features that the code is compiled for and those that are checked
/// at run time cannot differ. A call in the body to another function with `target_feature` compiles
/// only if the list includes all features of that function.
macro_rules! with_cpu_features {
    (
        [$($feature:tt),+],
        fn($($name:ident: $type:ty = $value:expr),*) -> $result:ty $body:block
    ) => {{
        #[target_feature($(enable = $feature),+)]
        fn compiled($($name: $type),*) -> $result $body

        if $(std::arch::is_x86_feature_detected!($feature))&&+ {
            // SAFETY: the processor has every feature that the function is compiled for.
            Some(unsafe { compiled($($value),*) })
        } else {
            None
        }
    }};
}

pub(crate) use with_cpu_features;

#[cfg(test)]
mod tests {
    #[test]
    fn a_function_is_called_where_the_processor_has_its_features() {
        let sum = with_cpu_features!(["sse2", "sse"], fn(a: u64 = 3, b: u64 = 4) -> u64 { a + b });
        assert_eq!(sum, Some(7), "every x86-64 processor has SSE2");
    }

    #[test]
    fn one_feature_that_is_missing_is_enough_to_leave_it() {
        // AMD processors have the first feature, Intel ones the second. The other features differ
        // between hosts.
        let sse4a_sm4 = with_cpu_features!(["sse4a", "sm4"], fn() -> bool { true });
        let both = is_x86_feature_detected!("sse4a") && is_x86_feature_detected!("sm4");
        assert_eq!(sse4a_sm4.is_some(), both);
        let avx512 = with_cpu_features!(["avx512f", "popcnt"], fn() -> bool { true });
        let both = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt");
        assert_eq!(avx512.is_some(), both);
    }
}
