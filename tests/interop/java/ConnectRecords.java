import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.storage.StringConverter;
import org.apache.kafka.connect.transforms.Transformation;

/** Reads records and transforms as lines of JSON; writes what Kafka Connect makes of each as a line of JSON. */
public class ConnectRecords {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode found;
            try {
                found = answer(MAPPER.readTree(line));
            } catch (Exception | LinkageError error) {
                found = MAPPER.createObjectNode().put("error", String.valueOf(error));
            }
            out.println(MAPPER.writeValueAsString(found));
        }
        out.flush();
    }

    private static JsonNode answer(JsonNode asked) throws Exception {
        boolean schemas = asked.get("schemas").asBoolean();
        boolean nulls = asked.get("nulls").asBoolean();
        JsonConverter reader = json(schemas, nulls);
        String topic = asked.get("topic").asText();
        SchemaAndValue key = reader.toConnectData(topic, bytes(asked.get("key")));
        SchemaAndValue value = reader.toConnectData(topic, bytes(asked.get("value")));
        SimpleHeaderConverter headerConverter = new SimpleHeaderConverter();
        headerConverter.configure(new HashMap<>());
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode each : asked.get("headers")) {
            headers.add(each.get(0).asText(), headerConverter.toConnectHeader(topic, each.get(0).asText(), bytes(each.get(1))));
        }
        JsonNode timestamp = asked.get("timestamp");
        SinkRecord record = new SinkRecord(topic, asked.get("partition").asInt(), key.schema(), key.value(), value.schema(),
                value.value(), asked.get("offset").asLong(), timestamp.isNull() ? null : timestamp.asLong(),
                TimestampType.CREATE_TIME, headers);
        List<Transformation<SinkRecord>> steps = new ArrayList<>();
        for (JsonNode each : asked.get("steps")) {
            steps.add(step(each));
        }
        for (Transformation<SinkRecord> each : steps) {
            record = each.apply(record);
            if (record == null) {
                return MAPPER.createObjectNode().put("dropped", true);
            }
        }
        ObjectNode found = MAPPER.createObjectNode();
        found.put("topic", record.topic());
        found.put("timestamp", record.timestamp());
        JsonConverter writer = json(true, nulls);
        found.put("key", text(writer.fromConnectData(topic, record.keySchema(), record.key())));
        found.put("value", text(writer.fromConnectData(topic, record.valueSchema(), record.value())));
        ArrayNode shown = found.putArray("headers");
        for (Header each : record.headers()) {
            shown.addArray().add(each.key()).add(text(writer.fromConnectData(topic, each.schema(), each.value())));
        }
        JsonNode as = asked.get("as");
        if (as != null) {
            Converter converter = as.asText().equals("StringConverter") ? new StringConverter() : json(false, nulls);
            if (as.asText().equals("numeric")) {
                converter.configure(Map.of("schemas.enable", "false", "decimal.format", "NUMERIC"), false);
            } else if (as.asText().equals("StringConverter")) {
                converter.configure(new HashMap<>(), false);
            }
            found.put("as", text(converter.fromConnectData(topic, record.valueSchema(), record.value())));
            ArrayNode simple = found.putArray("simple");
            for (Header each : record.headers()) {
                simple.add(text(headerConverter.fromConnectHeader(topic, each.key(), each.schema(), each.value())));
            }
        }
        return found;
    }

    private static JsonConverter json(boolean schemas, boolean nulls) {
        JsonConverter found = new JsonConverter();
        found.configure(Map.of("schemas.enable", String.valueOf(schemas), "replace.null.with.default", String.valueOf(!nulls)),
                false);
        return found;
    }

    @SuppressWarnings("unchecked")
    private static Transformation<SinkRecord> step(JsonNode asked) throws Exception {
        Map<String, String> config = new HashMap<>();
        asked.fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
        String name = "org.apache.kafka.connect.transforms." + config.remove("type");
        Transformation<SinkRecord> found =
                (Transformation<SinkRecord>) Class.forName(name).getDeclaredConstructor().newInstance();
        found.configure(config);
        return found;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
