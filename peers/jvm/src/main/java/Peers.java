import com.lmax.disruptor.BlockingWaitStrategy;
import com.lmax.disruptor.BusySpinWaitStrategy;
import com.lmax.disruptor.SleepingWaitStrategy;
import com.lmax.disruptor.YieldingWaitStrategy;
import com.lmax.disruptor.dsl.ProducerType;
import java.util.List;
import java.util.Locale;

/**
 * The ring suite on the LMAX Disruptor: {@code Peers WORK [--scale F | --count N] [--ring N]} prints one JSON line,
 * as every peer does. The ring has 1,024 slots by default.
 */
public final class Peers {
    private static final long EVENTS_COUNT = 10_000_000;
    /** The compiler of the JVM has come to rest by then. */
    private static final int WARM_UP_ROUNDS = 3;

    private Peers() {}

    public static void main(String[] arguments) throws InterruptedException {
        try {
            double scale = option(arguments, "--scale", 1.0);
            int slots = (int) option(arguments, "--ring", Round.SLOTS_DEFAULT);
            long count = (long) option(arguments, "--count", 0);
            if (count == 0) {
                count = Math.max(2, Math.round(EVENTS_COUNT * scale) / 2 * 2);
            }
            System.out.println(measure(arguments[0], count, slots));
        } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException error) {
            System.err.println("usage: Peers WORK [--scale F | --count N] [--ring N]: " + error.getMessage());
            System.exit(2);
        }
    }

    private static String measure(String work, long count, int slots) throws InterruptedException {
        if (work.startsWith("ring_") && work.endsWith("_2p")) {
            return String.format(
                    "{\"peer\":\"lmax\",\"work\":\"%s\",\"skipped\":\"it has no priorities\"}", work);
        }
        Round round = round(work, slots);
        for (int i = 0; i < WARM_UP_ROUNDS; i++) {
            round.run(count);
        }
        Round.Result result = round.run(count);
        return String.format(
                Locale.ROOT,
                "{\"peer\":\"lmax\",\"work\":\"%s\",\"count\":%d,\"seconds\":%.9f,"
                        + "\"unit\":\"msg\",\"qps\":%.3f,\"cpu_s\":%.9f}",
                work, count, result.seconds(), count / result.seconds(), result.cpuSeconds());
    }

    private static Round round(String work, int slots) {
        return switch (work) {
            case "ring_blocking" -> new Round(slots, ProducerType.SINGLE, BlockingWaitStrategy::new);
            case "ring_sleeping" -> new Round(slots, ProducerType.SINGLE, SleepingWaitStrategy::new);
            case "ring_yielding" -> new Round(slots, ProducerType.SINGLE, YieldingWaitStrategy::new);
            case "ring_busyspin" -> new Round(slots, ProducerType.SINGLE, BusySpinWaitStrategy::new);
            case "ring_multi" -> new Round(slots, ProducerType.MULTI, SleepingWaitStrategy::new);
            default -> throw new IllegalArgumentException("unknown work " + work);
        };
    }

    private static double option(String[] arguments, String name, double otherwise) {
        for (int i = 1; i < arguments.length; i += 2) {
            if (!List.of("--scale", "--count", "--ring").contains(arguments[i]) || i + 1 == arguments.length) {
                throw new IllegalArgumentException("a work, then options with their values");
            }
            if (arguments[i].equals(name)) {
                double value = Double.parseDouble(arguments[i + 1]);
                if (!(value > 0.0)) {
                    throw new IllegalArgumentException(name + " is a number above 0");
                }
                return value;
            }
        }
        return otherwise;
    }
}
