//! Piping: runs a future on the attached tokio runtime and sends its output to the actor.

use std::future::IntoFuture;

use freeboard_flow::ShedReason;

use crate::{
    actor::{Actor, Message},
    context::Context,
    receives::Receives,
    system::NoRuntime,
};

impl<A: Actor> Context<A> {
    /// Starts `future` on the attached tokio runtime and sends its output, converted by `into_msg`, to this actor.
    /// The actor handles other messages meanwhile. Sending waits for capacity if the lane's policy is to wait. If
    /// the actor has terminated by then, the output becomes a dead letter. A panic of the future is logged and
    /// counted as a dead letter.
    ///
    /// An [`crate::Ask`] can be piped directly. It is not ordered with messages that this actor sends itself.
    ///
    /// ```
    /// use freeboard_actor::{Actor, ActorRef, AskError, Context, Handler, System};
    ///
    /// struct Prices;
    /// struct Get;
    /// struct Shop(ActorRef<Prices>, std::sync::mpsc::Sender<u64>);
    /// struct Open;
    /// struct Price(Result<u64, AskError<Get>>);
    ///
    /// impl Actor for Prices {}
    /// impl Actor for Shop {}
    ///
    /// impl Handler<Get> for Prices {
    ///     type Reply = u64;
    ///     fn handle(&mut self, _msg: Get, _cx: &mut Context<Self>) -> u64 {
    ///         7
    ///     }
    /// }
    ///
    /// impl Handler<Open> for Shop {
    ///     type Reply = ();
    ///     fn handle(&mut self, _msg: Open, cx: &mut Context<Self>) {
    ///         cx.pipe(self.0.ask(Get), Price).expect("a runtime is attached");
    ///     }
    /// }
    ///
    /// impl Handler<Price> for Shop {
    ///     type Reply = ();
    ///     fn handle(&mut self, price: Price, _cx: &mut Context<Self>) {
    ///         self.1.send(price.0.expect("answered")).expect("read below");
    ///     }
    /// }
    ///
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let system = System::builder().workers(1).tokio(runtime.handle().clone()).build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let shop = system.spawn(Shop(system.spawn(Prices), sender));
    /// shop.tell(Open)?;
    /// assert_eq!(receiver.recv()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NoRuntime`] if no tokio runtime is attached.
    pub fn pipe<F, M>(
        &self,
        future: F,
        into_msg: impl FnOnce(F::Output) -> M + Send + 'static,
    ) -> Result<(), NoRuntime>
    where
        F: IntoFuture<IntoFuture: Send + 'static>,
        M: Message,
        A: Receives<M>,
    {
        let actor = self.actor_ref();
        let runtime = actor
            .cell()
            .core()
            .system
            .runtime
            .clone()
            .ok_or(NoRuntime)?;
        let watched = actor.clone();
        let future = future.into_future();
        let piped = runtime.spawn(async move {
            let msg = into_msg(future.await);
            let core = actor.cell().core();
            // A refused message has no sender to return to.
            match actor.send(msg).await {
                Ok(()) => {}
                Err(refused) => {
                    let reason = match refused {
                        crate::TellError::Full(_) => ShedReason::Full,
                        _ => ShedReason::Stopped,
                    };
                    let message_type = std::any::type_name::<M>();
                    core.note_dead_letter(message_type, reason);
                }
            }
        });
        runtime.spawn(async move {
            if let Err(error) = piped.await
                && error.is_panic()
            {
                let core = watched.cell().core();
                tracing::error!(actor = core.id().get(), "a piped future panicked");
                let message_type = std::any::type_name::<M>();
                core.note_dead_letter(message_type, ShedReason::HandlerPanicked);
            }
        });
        Ok(())
    }
}
