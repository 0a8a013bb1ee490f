//! Declares the counters of a listener, a server or a proxy once: name, kind and help.

/// Declares `Counters` (what is counted), `Snapshot` (the values at one time) and the Prometheus families.
///
/// The doc comment of a counter is also the help text of its family. `gauges` are fields of the snapshot
/// that the caller fills.
macro_rules! declare_counters {
    (
        counters: $counters:ident;
        $(#[$meta:meta])*
        snapshot: $snapshot:ident labelled $label:literal;
        $( #[doc = $help:literal] $field:ident: $family:literal, )+
        $( gauges: $( #[doc = $gauge_help:literal] $gauge:ident: $gauge_family:literal, )+ )?
    ) => {
        #[derive(Debug, Default)]
        pub(super) struct $counters {
            $( pub(super) $field: freeboard_meter::Counter, )+
        }

        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $snapshot {
            $( #[doc = $help] pub $field: u64, )+
            $( $( #[doc = $gauge_help] pub $gauge: u64, )+ )?
        }

        impl $counters {
            pub(super) fn snapshot(&self) -> $snapshot {
                $snapshot {
                    $( $field: self.$field.get(), )+
                    $( $( $gauge: 0, )+ )?
                }
            }
        }

        impl $snapshot {
            #[doc = concat!("Adds the families to `text`, labelled with `", $label, "`.")]
            pub fn render(&self, name: &str, text: &mut freeboard_meter::Exposition) {
                use freeboard_meter::FamilyKind;
                for (family, kind, help, value) in [
                    $( ($family, FamilyKind::Counter, $help, self.$field), )+
                    $( $( ($gauge_family, FamilyKind::Gauge, $gauge_help, self.$gauge), )+ )?
                ] {
                    text.family(family, kind, help.trim());
                    text.sample(family, &[($label, name)], value as f64);
                }
            }
        }
    };
}
pub(crate) use declare_counters;
