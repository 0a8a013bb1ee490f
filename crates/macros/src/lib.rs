//! `#[handlers]`: actors whose messages are written as methods.
//!
//! The attribute reads an impl block and writes what a user would write by hand: see [`handlers`].
//!
//! ```text
//!   #[handlers]                          method     a method of the block, read as a handler
//!   impl Counter {              ──>      types      which types a message can hold; `Self`; type parameters
//!       pub fn add(..)                   options    `#[handlers(..)]`, `#[handler(..)]`
//!   }                                    expand     struct CounterAdd, impl Handler<CounterAdd>, trait CounterCalls
//! ```

#![forbid(unsafe_code)]

mod expand;
mod method;
mod options;
mod remote_message;
mod sim_test;
mod types;

use proc_macro::TokenStream;
use syn::{ItemImpl, parse_macro_input};

/// Makes each method of an impl block a handler.
///
/// ```
/// use freeboard::prelude::*;
/// use std::future::{Ready, ready};
///
/// struct Counter(u64);
///
/// impl Actor for Counter {}
///
/// #[handlers]
/// impl Counter {
///     /// Adds a number, and replies with the sum.
///     pub fn add(&mut self, n: u64) -> u64 {
///         self.0 += n;
///         self.0
///     }
///
///     /// Adds what a future gives. The actor handles no other message meanwhile.
///     pub async fn add_later(&mut self, cx: &mut Context<Self>, n: Ready<u64>) -> u64 {
///         let _ = cx;
///         self.add(n.await)
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let system = System::builder().workers(1).build()?;
/// let counter = system.spawn(Counter(0));
/// assert_eq!(counter.add(2).wait()?, 2);             // an `Ask`: `.await` it in async code
/// counter.add(3).tell()?;                            // nobody waits for the reply
/// counter.tell(CounterAdd { n: 4 })?;                // the message as a value
/// assert_eq!(counter.add_later(ready(5)).wait()?, 14);
/// # Ok(())
/// # }
/// ```
///
/// # What it makes
///
/// For the method `add` of `Counter`:
///
/// - The message type `CounterAdd`, with a public field for each argument (as visible as the method), or without fields.
/// - `impl Handler<CounterAdd> for Counter`, which calls the method; for an `async fn` it is `AsyncHandler`,
///   for a method with a `Deferred` it is `DeferredHandler`.
/// - The trait `CounterCalls` with a method `add`, implemented for `ActorRef<Counter>`. It returns an `Ask`. Other
///   modules import the trait.
///
/// The block itself remains, so handlers call each other: `self.add(2)`. Plain `impl Handler<M>` stands beside the block
/// for messages that exist already, such as `Terminated`.
///
/// The names belong to the block: two blocks of one type take `#[handlers(prefix = CounterAdmin)]` for the second one,
/// which then makes `CounterAdminReset` and `CounterAdminCalls`. Without it the compiler reports that `CounterCalls` is
/// defined more than once (E0428): a macro sees one block at a time.
///
/// # Which methods
///
/// Every method with `&mut self` or `&self` is a handler, except those with `#[handler(skip)]`. Functions without `self`
/// are not handlers. An `async fn` with `&self` needs an actor that is `Sync`; with `&mut self` it does not.
///
/// A parameter `Deferred<T>` makes the method a `DeferredHandler`: the reply has type `T` and is sent through the
/// `Deferred`, now or later, so the method returns nothing. A `Deferred` that the message itself carries has the
/// attribute `#[field]`.
///
/// A parameter `&mut Context<Self>`, at any position, receives the context. All other parameters become fields of the
/// message, so they need a name, and their types are owned: `String`, not `&str`. Methods have no type parameters of
/// their own; the block may have some, and a message has those that its fields need.
///
/// # What carries over
///
/// - Documentation: to the message type and the call. A comment at a parameter documents the field.
/// - Visibility: to the message type, its fields, and the trait. If the methods of a block differ in visibility, the
///   widest is `CounterCalls`; the others have traits of their own: `CounterCrateCalls` (`pub(crate)`),
///   `CounterModuleCalls` (`pub(super)`, `pub(in ..)`) and `CounterPrivateCalls`.
/// - `#[cfg]`, `#[deprecated]` and `#[allow]`. All other attributes stay with the method.
///
/// # Options of a method
///
/// | `#[handler(..)]` | meaning |
/// |---|---|
/// | `skip` | the method is no handler |
/// | `call = join_room` | the name of the reference's method; needed if `ActorRef` has a method of that name |
/// | `lane = 1` | calls use this lane; an expression of type `usize` |
/// | `coalesce = key` | the key for a lane that coalesces: an expression of type `u64`, in which the arguments are references |
/// | `fail_on_err` | an `Err`, whose error is `Display`, also fails the actor, as `Context::fail_on_err` does |
/// | `derive(Clone, Debug)` | the message type derives these |
///
/// The option `crate = path` of `#[handlers(..)]` names the crate `freeboard` if it has another name.
#[proc_macro_attribute]
pub fn handlers(options: TokenStream, block: TokenStream) -> TokenStream {
    let mut read = options::BlockOptions::default();
    let parser = syn::meta::parser(|meta| read.read(&meta));
    parse_macro_input!(options with parser);
    let block = parse_macro_input!(block as ItemImpl);
    expand::expand(read, block).into()
}

/// Makes a function of a world a test that runs with many seeds.
///
/// `seeds` is their number, 100 if it is not given. The function takes a `&mut World` or a `&World` of `freeboard::sim`.
/// See `freeboard::sim::each_seed` for what happens when a seed fails.
///
/// ```
/// # #[cfg(any())]
/// #[freeboard::sim_test(seeds = 200)]
/// fn an_empty_world_has_no_actors(world: &mut World) {
///     assert_eq!(world.actors_alive(), 0);
/// }
/// ```
#[proc_macro_attribute]
pub fn sim_test(options: TokenStream, item: TokenStream) -> TokenStream {
    sim_test::expand(options.into(), item.into())
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

/// Makes a type a message between processes: `freeboard::remote::RemoteMessage`. It needs serde's derives, too.
///
/// `name` is the name on the wire, and required. `version` (default 1) is that of the fields. `reply` (default `()`) is the
/// type of the reply to an ask. `key` names a function from `&Self` to `Option<u64>`, for coalescing at the sender.
///
/// ```ignore
/// #[derive(Serialize, Deserialize, RemoteMessage)]
/// #[remote(name = "bank.deposit", version = 2, reply = u64)]
/// struct Deposit { amount: u64 }
/// ```
///
/// # Errors
/// Of the compiler: without a name, or for a generic type.
#[proc_macro_derive(RemoteMessage, attributes(remote))]
pub fn remote_message(item: TokenStream) -> TokenStream {
    remote_message::expand(item.into())
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
