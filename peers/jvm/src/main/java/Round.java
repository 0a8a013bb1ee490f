import com.lmax.disruptor.EventHandler;
import com.lmax.disruptor.RingBuffer;
import com.lmax.disruptor.WaitStrategy;
import com.lmax.disruptor.dsl.Disruptor;
import com.lmax.disruptor.dsl.ProducerType;
import com.lmax.disruptor.util.DaemonThreadFactory;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;

/**
 * One round over a ring of its own: this thread publishes one event at a time, one consumer adds the
 * values up.
 *
 * <pre>
 *  this thread --&gt; ring --&gt; one consumer
 * </pre>
 *
 * It is the Disruptor's own one-to-one sequenced throughput test.
 */
record Round(int slots, ProducerType producers, Supplier<WaitStrategy> strategy) {
    static final int SLOTS_DEFAULT = 1_024;
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    /** What a round took, in seconds; the processor time is that of all threads of the process. */
    record Result(double seconds, double cpuSeconds) {}

    private static final class Event {
        long value;
    }

    private static final class Adder implements EventHandler<Event> {
        private final long expected;
        private final CountDownLatch done = new CountDownLatch(1);
        private long count;
        private long sum;
        private long endedNs;

        Adder(long expected) {
            this.expected = expected;
        }

        @Override
        public void onEvent(Event event, long sequence, boolean endOfBatch) {
            sum += event.value;
            count++;
            if (count == expected) {
                endedNs = System.nanoTime();
                done.countDown();
            }
        }
    }

    Result run(long count) throws InterruptedException {
        Disruptor<Event> disruptor =
                new Disruptor<>(
                        Event::new, slots, DaemonThreadFactory.INSTANCE, producers, strategy.get());
        Adder adder = new Adder(count);
        disruptor.handleEventsWith(adder);
        RingBuffer<Event> ring = disruptor.start();
        long cpuBeforeNs = SYSTEM.getProcessCpuTime();
        long startedNs = System.nanoTime();
        publish(ring, count);
        adder.done.await();
        long cpuNs = SYSTEM.getProcessCpuTime() - cpuBeforeNs;
        disruptor.shutdown();
        if (adder.sum != count * (count - 1) / 2) {
            throw new IllegalStateException("all events arrived, but their sum is " + adder.sum);
        }
        return new Result((adder.endedNs - startedNs) / 1e9, cpuNs / 1e9);
    }

    private static void publish(RingBuffer<Event> ring, long count) {
        for (long value = 0; value < count; value++) {
            long sequence = ring.next();
            ring.get(sequence).value = value;
            ring.publish(sequence);
        }
    }
}
