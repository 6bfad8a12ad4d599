import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What Kafka's own client does on secured listeners: create a topic, a transaction, read it in a group, describe that.
 *
 * <p>The arguments are pairs of a topic and a file with the properties of a client. Each is answered by a line: the
 * topic, and the number of records that were read or an error.
 */
public class SecureJourney {
    private static final int RECORDS = 20;
    private static final int BYTES = 5_000;
    private static final long DEADLINE_MS = 30_000;

    public static void main(String[] arguments) {
        for (int at = 0; at < arguments.length; at += 2) {
            String topic = arguments[at];
            try (Reader file = new FileReader(arguments[at + 1])) {
                Properties settings = new Properties();
                settings.load(file);
                System.out.println(topic + " " + journey(settings, topic));
            } catch (Exception failed) {
                System.out.println(topic + " " + failed + " " + failed.getCause());
            }
        }
    }

    private static int journey(Properties settings, String topic) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get(30, TimeUnit.SECONDS);
            write(settings, topic);
            int read = read(settings, topic);
            admin.describeConsumerGroups(List.of(topic)).all().get(30, TimeUnit.SECONDS);
            return read;
        }
    }

    private static void write(Properties settings, String topic) {
        Properties own = with(settings, Map.of("transactional.id", topic));
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(own, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>(topic, number % 3, null, new byte[BYTES]));
            }
            producer.commitTransaction();
        }
    }

    private static int read(Properties settings, String topic) {
        Properties own =
                with(
                        settings,
                        Map.of(
                                "group.id", topic,
                                "auto.offset.reset", "earliest",
                                "isolation.level", "read_committed"));
        int read = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(own, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (read < RECORDS && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(500))) {
                    read += each.value().length == BYTES ? 1 : 0;
                }
            }
            consumer.commitSync();
        }
        return read;
    }

    private static Properties with(Properties settings, Map<String, String> more) {
        Properties own = new Properties();
        own.putAll(settings);
        own.putAll(more);
        return own;
    }
}
