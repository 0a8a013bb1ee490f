//! Commands that are carried out as one.

use crate::{
    command::{Call, Outcome},
    dialogue::run,
    refusal::Refusal,
    session::Transaction,
};

const NESTED: Refusal = Refusal::of("ERR MULTI calls can not be nested");
const EXEC_ALONE: Refusal = Refusal::of("ERR EXEC without MULTI");
const DISCARD_ALONE: Refusal = Refusal::of("ERR DISCARD without MULTI");
const SPOILED: Refusal = Refusal::of("EXECABORT Transaction discarded because of previous errors.");

pub(super) fn multi(call: &mut Call<'_>) -> Outcome {
    if call.session.transaction.is_some() {
        return Err(NESTED);
    }
    call.session.transaction = Some(Transaction::default());
    call.output.ok();
    Ok(())
}

pub(super) fn discard(call: &mut Call<'_>) -> Outcome {
    call.session.transaction.take().ok_or(DISCARD_ALONE)?;
    call.output.ok();
    Ok(())
}

pub(super) fn exec(call: &mut Call<'_>) -> Outcome {
    let transaction = call.session.transaction.take().ok_or(EXEC_ALONE)?;
    if transaction.is_spoiled {
        return Err(SPOILED);
    }
    let commands = transaction.into_commands();
    call.output.array(commands.len());
    for (command, arguments) in &commands {
        let mut part = Call {
            arguments: arguments.as_arguments(),
            store: call.store,
            session: call.session,
            output: call.output,
            now_ms: call.now_ms,
        };
        run(command, &mut part);
    }
    Ok(())
}
