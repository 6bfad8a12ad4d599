import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's own transactional producer, told what to do line by line, each answered by "ok" or by an error.
 *
 * <pre>
 * begin | commit | abort
 * send TOPIC PARTITION VALUE [PARTITION VALUE ...]
 * offsets GROUP TOPIC PARTITION OFFSET
 * </pre>
 */
public class Transactions {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[1]);
        settings.put("transaction.timeout.ms", arguments[2]);
        settings.put("delivery.timeout.ms", "30000");
        settings.put("request.timeout.ms", "10000");
        settings.put("linger.ms", "0");
        settings.put("reconnect.backoff.ms", "20");
        settings.put("retry.backoff.ms", "20");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<String, byte[]> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
            answer(() -> producer.initTransactions());
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                String[] words = line.split(" ");
                answer(() -> handle(producer, words));
            }
            producer.close(java.time.Duration.ZERO);
        }
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void answer(Step step) {
        try {
            step.run();
            System.out.println("ok");
        } catch (ExecutionException failed) {
            System.out.println("error " + failed.getCause());
        } catch (Exception failed) {
            System.out.println("error " + failed);
        }
        System.out.flush();
    }

    private static void handle(KafkaProducer<String, byte[]> producer, String[] words) throws Exception {
        switch (words[0]) {
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "send" -> {
                List<Future<?>> sent = new ArrayList<>();
                for (int at = 2; at < words.length; at += 2) {
                    Integer partition = Integer.valueOf(words[at]);
                    byte[] value = words[at + 1].getBytes();
                    sent.add(producer.send(new ProducerRecord<>(words[1], partition, null, value)));
                }
                producer.flush();
                for (Future<?> each : sent) {
                    each.get();
                }
            }
            case "offsets" -> {
                TopicPartition place = new TopicPartition(words[2], Integer.parseInt(words[3]));
                OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(words[4]));
                producer.sendOffsetsToTransaction(Map.of(place, offset), new ConsumerGroupMetadata(words[1]));
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }
}
