import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/** Counts records by the first word of their values: a repartition topic, a store with a changelog, exactly once. */
public class Totals {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[2]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "3");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("producer.transaction.timeout.ms", "10000");
        settings.put("consumer.session.timeout.ms", "6000");
        settings.put("consumer.auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        var strings = Serdes.String();
        builder.stream("lines", Consumed.with(strings, strings))
                .selectKey((key, value) -> value.split(" ")[0])
                .groupByKey(Grouped.with("by-word", strings, strings))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("totals-store"))
                        .withKeySerde(strings).withValueSerde(Serdes.Long()).withCachingDisabled())
                .toStream()
                .mapValues(String::valueOf)
                .to("totals", Produced.with(strings, strings));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
    }
}
