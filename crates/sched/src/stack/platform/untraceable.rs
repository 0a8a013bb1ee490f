//! Code in which an interrupted thread must not be traced: the unwinder and the vDSO.

use std::{
    ffi::{c_int, c_void},
    mem,
    ops::Range,
    ptr,
};

/// `struct dl_find_object` of glibc's `<dlfcn.h>`: the fields with the same layout on all architectures.
#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: usize,
    map_end: usize,
    /// At least as much as glibc writes on any architecture.
    others: [u64; 10],
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut FoundObject) -> c_int;

// SAFETY: every program of this platform has the unwinder; only its address is taken here.
unsafe extern "C" {
    fn _Unwind_Backtrace();
}

#[derive(Debug)]
pub(super) struct Untraceable {
    unwinder: Range<usize>,
    vdso: Range<usize>,
}

impl Untraceable {
    /// `None` if the unwinder is not safe in a signal handler, or is in the same object as `handler`.
    pub(super) fn find(handler: usize) -> Option<Self> {
        // SAFETY: a zero-terminated name; the default scope needs no handle.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
        if address.is_null() {
            return None;
        }
        // SAFETY: only glibc has a symbol of this name, a function of this type.
        let find_object = unsafe { mem::transmute::<*mut c_void, FindObject>(address) };
        let unwinder = object_around(find_object, _Unwind_Backtrace as *mut c_void)?;
        // SAFETY: getauxval has no preconditions.
        let vdso_start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        // A kernel may run without one.
        let vdso = object_around(
            find_object,
            ptr::without_provenance_mut(vdso_start as usize),
        );
        (!unwinder.contains(&handler)).then(|| Self {
            unwinder,
            vdso: vdso.unwrap_or_default(),
        })
    }

    pub(super) fn contains(&self, address: usize) -> bool {
        self.unwinder.contains(&address) || self.vdso.contains(&address)
    }
}

fn object_around(find_object: FindObject, address: *mut c_void) -> Option<Range<usize>> {
    let mut found = FoundObject {
        flags: 0,
        map_start: 0,
        map_end: 0,
        others: [0; 10],
    };
    // SAFETY: any address is allowed, and `found` is at least as large as glibc's structure.
    let status = unsafe { find_object(address, &raw mut found) };
    (status == 0).then_some(found.map_start..found.map_end)
}
