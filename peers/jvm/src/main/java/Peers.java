import com.lmax.disruptor.BlockingWaitStrategy;
import com.lmax.disruptor.BusySpinWaitStrategy;
import com.lmax.disruptor.SleepingWaitStrategy;
import com.lmax.disruptor.YieldingWaitStrategy;
import com.lmax.disruptor.dsl.ProducerType;
import java.util.Locale;

/**
 * The ring suite on the LMAX Disruptor: {@code Peers WORK [--scale F]} prints one JSON line, as every
 * peer does.
 */
public final class Peers {
    private static final long EVENTS_COUNT = 10_000_000;
    /** The compiler of the JVM has come to rest by then. */
    private static final int WARM_UP_ROUNDS = 3;

    private Peers() {}

    public static void main(String[] arguments) throws InterruptedException {
        try {
            System.out.println(measure(arguments[0], scale(arguments)));
        } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException error) {
            System.err.println("usage: Peers WORK [--scale F]: " + error.getMessage());
            System.exit(2);
        }
    }

    private static String measure(String work, double scale) throws InterruptedException {
        if (work.startsWith("ring_") && work.endsWith("_2p")) {
            return String.format(
                    "{\"peer\":\"lmax\",\"work\":\"%s\",\"skipped\":\"it has no priorities\"}", work);
        }
        Round round = round(work);
        long count = Math.max(2, Math.round(EVENTS_COUNT * scale) / 2 * 2);
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

    private static Round round(String work) {
        return switch (work) {
            case "ring_blocking" -> new Round(ProducerType.SINGLE, BlockingWaitStrategy::new);
            case "ring_sleeping" -> new Round(ProducerType.SINGLE, SleepingWaitStrategy::new);
            case "ring_yielding" -> new Round(ProducerType.SINGLE, YieldingWaitStrategy::new);
            case "ring_busyspin" -> new Round(ProducerType.SINGLE, BusySpinWaitStrategy::new);
            case "ring_multi" -> new Round(ProducerType.MULTI, SleepingWaitStrategy::new);
            default -> throw new IllegalArgumentException("unknown work " + work);
        };
    }

    private static double scale(String[] arguments) {
        if (arguments.length == 1) {
            return 1.0;
        }
        if (arguments.length != 3 || !arguments[1].equals("--scale")) {
            throw new IllegalArgumentException("a work and at most a scale");
        }
        double scale = Double.parseDouble(arguments[2]);
        if (!(scale > 0.0)) {
            throw new IllegalArgumentException("the scale is a number above 0");
        }
        return scale;
    }
}
