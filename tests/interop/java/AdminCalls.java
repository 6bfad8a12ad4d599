import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Every call of Kafka's Admin interface in a fixed order; each step prints its name, a tab and its result.
 *
 * <p>Results are shown by their public methods without arguments, in alphabetical order, so that two brokers
 * can be compared; errors by their class, because their messages are in each broker's own words. The last line names the methods of Admin that no step called.
 */
public class AdminCalls {
    private static final Set<String> CALLED = new TreeSet<>();
    private static final Set<String> OF_OBJECTS =
            Set.of("hashCode", "toString", "getClass", "notify", "notifyAll", "wait", "clone");
    private static Admin admin;
    private static Properties settings;

    private interface Step {
        Object run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "PLAIN");
        settings.put(
                "sasl.jaas.config",
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"admin\""
                        + " password=\"secret\";");
        settings.put("default.api.timeout.ms", "20000");
        settings.put("request.timeout.ms", "10000");
        settings.put("enable.metrics.push", "true");
        try (Admin real = Admin.create(settings)) {
            admin = recording(real);
            cluster();
            topics();
            configs();
            records();
            groups();
            transactions();
            security();
            moves();
            newer();
            ends();
        }
        Set<String> missing = Arrays.stream(Admin.class.getMethods())
                .filter(each -> !Modifier.isStatic(each.getModifiers()))
                .map(Method::getName)
                .collect(Collectors.toCollection(TreeSet::new));
        missing.removeAll(CALLED);
        missing.removeAll(Set.of("close", "metrics"));
        print("not called", missing);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void cluster() {
        step("describeCluster", () -> admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true)));
        step("describeFeatures", () -> admin.describeFeatures());
        step("describeMetadataQuorum", () -> admin.describeMetadataQuorum());
        step("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(1)));
        step("registerMetricForSubscription", () -> {
            admin.registerMetricForSubscription(null);
            return "done";
        });
        step("unregisterMetricFromSubscription", () -> {
            admin.unregisterMetricFromSubscription(null);
            return "done";
        });
    }

    private static void topics() {
        NewTopic plain = new NewTopic("plain", 2, (short) 1).configs(Map.of("retention.ms", "86400000"));
        step("createTopics", () -> admin.createTopics(List.of(plain)));
        step("createTopics again", () -> admin.createTopics(List.of(plain)));
        step("createTopics by defaults", () -> admin.createTopics(
                List.of(new NewTopic("defaults", Optional.empty(), Optional.empty()))));
        step("createTopics assigned", () -> admin.createTopics(
                List.of(new NewTopic("assigned", Map.of(0, List.of(1), 1, List.of(1))))));
        step("createTopics validated only", () -> admin.createTopics(
                List.of(new NewTopic("unmade", 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)));
        step("createTopics bad name", () -> admin.createTopics(List.of(new NewTopic("a/b", 1, (short) 1))));
        step("createTopics empty name", () -> admin.createTopics(List.of(new NewTopic("", 1, (short) 1))));
        step("createTopics name of dots", () -> admin.createTopics(List.of(new NewTopic("..", 1, (short) 1))));
        step("createTopics colliding name", () -> List.of(
                admin.createTopics(List.of(new NewTopic("a.b", 1, (short) 1))).values().get("a.b"),
                admin.createTopics(List.of(new NewTopic("a_b", 1, (short) 1))).values().get("a_b")));
        step("createTopics no partitions", () -> admin.createTopics(List.of(new NewTopic("none", 0, (short) 1))));
        step("createTopics too many replicas", () -> admin.createTopics(
                List.of(new NewTopic("wide", 1, (short) 3))));
        step("createTopics unknown config", () -> admin.createTopics(
                List.of(new NewTopic("odd", 1, (short) 1).configs(Map.of("no.such.key", "1")))));
        step("createTopics bad config", () -> admin.createTopics(
                List.of(new NewTopic("odd", 1, (short) 1).configs(Map.of("retention.ms", "soon")))));
        step("createTopics unknown replica", () -> admin.createTopics(
                List.of(new NewTopic("odd", Map.of(0, List.of(9))))));
        step("createTopics gap in partitions", () -> admin.createTopics(
                List.of(new NewTopic("odd", Map.of(1, List.of(1))))));
        step("listTopics", () -> admin.listTopics().names());
        step("listTopics internal", () -> admin.listTopics(new ListTopicsOptions().listInternal(true)));
        step("describeTopics", () -> admin.describeTopics(
                List.of("plain", "absent"), new DescribeTopicsOptions().includeAuthorizedOperations(true)));
        step("describeTopics by id", () -> {
            Uuid id = admin.describeTopics(List.of("plain")).allTopicNames().get().get("plain").topicId();
            return admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds();
        });
        step("describeTopics by unknown id", () -> admin.describeTopics(
                TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).allTopicIds());
        step("describeTopics bad name", () -> admin.describeTopics(List.of("a/b")));
        step("createPartitions", () -> admin.createPartitions(Map.of("plain", NewPartitions.increaseTo(3))));
        step("createPartitions fewer", () -> admin.createPartitions(Map.of("plain", NewPartitions.increaseTo(1))));
        step("createPartitions equal", () -> admin.createPartitions(Map.of("plain", NewPartitions.increaseTo(3))));
        step("createPartitions absent", () -> admin.createPartitions(Map.of("absent", NewPartitions.increaseTo(3))));
        step("createPartitions wrong assignment", () -> admin.createPartitions(
                Map.of("plain", NewPartitions.increaseTo(5, List.of(List.of(1))))));
        step("createPartitions unknown replica", () -> admin.createPartitions(
                Map.of("plain", NewPartitions.increaseTo(4, List.of(List.of(9))))));
        step("deleteTopics", () -> admin.deleteTopics(List.of("assigned", "absent")));
        step("deleteTopics unknown id", () -> admin.deleteTopics(
                TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).topicIdValues());
    }

    private static void configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "plain");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        ConfigResource brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "classic");
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "latencies");
        ConfigResource absent = new ConfigResource(ConfigResource.Type.TOPIC, "absent");
        eachKey("describeConfigs topic", topic);
        eachKey("describeConfigs broker", broker);
        eachKey("describeConfigs group", group);
        eachKey("describeConfigs metrics", metrics);
        ConfigResource loggers = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1");
        step("describeConfigs loggers", () -> admin.describeConfigs(List.of(loggers)).all().get().get(loggers)
                .entries().size() > 1);
        step("describeConfigs absent topic", () -> admin.describeConfigs(List.of(absent)));
        step("describeConfigs other broker", () -> admin.describeConfigs(
                List.of(new ConfigResource(ConfigResource.Type.BROKER, "9")),
                new DescribeConfigsOptions().timeoutMs(1500)));
        step("describeConfigs broker by name", () -> admin.describeConfigs(
                List.of(new ConfigResource(ConfigResource.Type.BROKER, "one"))));
        alter("topic", topic, "segment.bytes", "2000000");
        alter("topic list", topic, "cleanup.policy", "compact");
        step("incrementalAlterConfigs append", () -> change(
                topic, new ConfigEntry("cleanup.policy", "delete"), AlterConfigOp.OpType.APPEND));
        step("incrementalAlterConfigs subtract", () -> change(
                topic, new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.SUBTRACT));
        step("incrementalAlterConfigs append to a number", () -> change(
                topic, new ConfigEntry("segment.bytes", "1"), AlterConfigOp.OpType.APPEND));
        step("incrementalAlterConfigs delete", () -> change(
                topic, new ConfigEntry("segment.bytes", null), AlterConfigOp.OpType.DELETE));
        step("incrementalAlterConfigs delete unset", () -> change(
                topic, new ConfigEntry("flush.ms", null), AlterConfigOp.OpType.DELETE));
        step("incrementalAlterConfigs null", () -> change(
                topic, new ConfigEntry("flush.ms", null), AlterConfigOp.OpType.SET));
        alter("unknown key", topic, "no.such.key", "1");
        alter("bad value", topic, "retention.ms", "soon");
        alter("out of range", topic, "segment.bytes", "1");
        alter("bad policy", topic, "cleanup.policy", "burn");
        alter("absent topic", absent, "retention.ms", "1");
        alter("broker", broker, "log.retention.ms", "36000000");
        alter("brokers", brokers, "log.retention.ms", "72000000");
        alter("read-only", broker, "log.dirs", "/elsewhere");
        alter("other broker", new ConfigResource(ConfigResource.Type.BROKER, "9"), "log.retention.ms", "1");
        alter("group", group, "consumer.session.timeout.ms", "46000");
        alter("group bad", group, "consumer.session.timeout.ms", "1");
        alter("group share", group, "share.record.lock.duration.ms", "20000");
        alter("group streams", group, "streams.num.standby.replicas", "1");
        alter("group unknown", group, "no.such.key", "1");
        alter("metrics", metrics, "metrics", "org.apache.kafka.producer.");
        alter("metrics interval", metrics, "interval.ms", "10");
        alter("metrics match", metrics, "match", "no_such_selector=1");
        alter("metrics unknown", metrics, "no.such.key", "1");
        alter("logger", loggers, "root", "WARN");
        alter("logger level", loggers, "root", "LOUD");
        step("describeConfigs changed", () -> admin.describeConfigs(List.of(topic, group, metrics)).all()
                .thenApply(found -> found.entrySet().stream()
                        .collect(Collectors.toMap(each -> each.getKey().toString(), each -> each.getValue()
                                .entries().stream()
                                .filter(entry -> entry.source() != ConfigEntry.ConfigSource.DEFAULT_CONFIG)
                                .filter(entry -> !entry.name().startsWith("log."))
                                .map(entry -> entry.name() + "=" + entry.value() + " " + entry.source())
                                .collect(Collectors.toCollection(TreeSet::new))))));
        step("listConfigResources", () -> admin.listConfigResources());
        step("listConfigResources groups", () -> admin.listConfigResources(
                Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS),
                new ListConfigResourcesOptions()));
        step("listConfigResources loggers", () -> admin.listConfigResources(
                Set.of(ConfigResource.Type.BROKER_LOGGER), new ListConfigResourcesOptions()));
        step("listClientMetricsResources", () -> admin.listClientMetricsResources());
    }

    private static void eachKey(String name, ConfigResource resource) {
        step(name, () -> {
            Config found = admin.describeConfigs(
                    List.of(resource), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true))
                    .all().get().get(resource);
            for (ConfigEntry each : found.entries()) {
                String shown = each.value() + " " + each.source() + " " + each.type()
                        + (each.isReadOnly() ? " read-only" : "") + (each.isSensitive() ? " sensitive" : "")
                        + (each.documentation() == null ? " undocumented" : "") + " " + each.synonyms().stream()
                                .map(one -> one.source() + ":" + one.name() + "=" + one.value()).toList();
                print(name + " " + each.name(), shown);
            }
            return "done";
        });
    }

    private static void alter(String name, ConfigResource resource, String key, String value) {
        step("incrementalAlterConfigs " + name, () -> change(
                resource, new ConfigEntry(key, value), AlterConfigOp.OpType.SET));
    }

    private static Object change(ConfigResource resource, ConfigEntry entry, AlterConfigOp.OpType type) {
        return admin.incrementalAlterConfigs(
                Map.of(resource, List.of(new AlterConfigOp(entry, type))),
                new AlterConfigsOptions().timeoutMs(5000));
    }

    private static TopicPartition at(String topic, int partition) {
        return new TopicPartition(topic, partition);
    }

    private static void records() throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (long time : new long[] {1_000, 4_000, 3_000, 2_000}) {
                producer.send(new ProducerRecord<>("defaults", 0, 1_700_000_000_000L + time, "k", "v")).get();
            }
        }
        step("listOffsets earliest", () -> offset("defaults", OffsetSpec.earliest()));
        step("listOffsets latest", () -> offset("defaults", OffsetSpec.latest()));
        step("listOffsets max timestamp", () -> offset("defaults", OffsetSpec.maxTimestamp()));
        step("listOffsets timestamp", () -> offset("defaults", OffsetSpec.forTimestamp(1_700_000_002_500L)));
        step("listOffsets future", () -> offset("defaults", OffsetSpec.forTimestamp(4_000_000_000_000L)));
        step("listOffsets earliest local", () -> offset("defaults", OffsetSpec.earliestLocal()));
        step("listOffsets latest tiered", () -> offset("defaults", OffsetSpec.latestTiered()));
        step("listOffsets earliest pending", () -> offset("defaults", OffsetSpec.earliestPendingUpload()));
        step("listOffsets absent", () -> admin.listOffsets(
                Map.of(at("absent", 0), OffsetSpec.latest()), new ListOffsetsOptions().timeoutMs(1500)).all()
                .whenComplete((done, failed) -> {}));
        step("deleteRecords", () -> remove("defaults", 2));
        step("deleteRecords to the end", () -> remove("defaults", -1));
        step("deleteRecords beyond", () -> remove("defaults", 99));
        step("deleteRecords compacted", () -> {
            admin.createTopics(List.of(
                    new NewTopic("compacted", 1, (short) 1).configs(Map.of("cleanup.policy", "compact")))).all().get();
            return remove("compacted", 0);
        });
        step("listOffsets after deletion", () -> offset("defaults", OffsetSpec.earliest()));
        step("describeLogDirs", () -> admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values()
                .stream().map(each -> each.error() + " " + each.totalBytes().isPresent() + " "
                        + each.usableBytes().isPresent() + " " + each.replicaInfos().entrySet().stream()
                                .filter(one -> one.getKey().topic().equals("defaults"))
                                .map(Object::toString).toList()).toList());
        step("describeReplicaLogDirs", () -> admin.describeReplicaLogDirs(List.of(
                new TopicPartitionReplica("defaults", 0, 1), new TopicPartitionReplica("absent", 0, 1))));
        step("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(
                Map.of(new TopicPartitionReplica("defaults", 0, 1), "/nowhere")));
    }

    private static Object offset(String topic, OffsetSpec spec) {
        return admin.listOffsets(Map.of(at(topic, 0), spec));
    }

    private static Object remove(String topic, long offset) {
        return admin.deleteRecords(Map.of(at(topic, 0), RecordsToDelete.beforeOffset(offset)));
    }

    private static KafkaConsumer<String, String> member(String group, Map<String, String> more) {
        Properties mine = new Properties();
        mine.putAll(settings);
        mine.put("group.id", group);
        mine.put("client.id", "reader");
        mine.put("auto.offset.reset", "earliest");
        mine.putAll(more);
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(mine, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("defaults"));
        long end = System.currentTimeMillis() + 20_000;
        while (consumer.assignment().isEmpty() && System.currentTimeMillis() < end) {
            consumer.poll(Duration.ofMillis(100));
        }
        return consumer;
    }

    private static void groups() {
        KafkaConsumer<String, String> classic = member("classic", Map.of("group.instance.id", "first"));
        KafkaConsumer<String, String> modern = member("modern", Map.of("group.protocol", "consumer"));
        step("listGroups", () -> admin.listGroups());
        step("listGroups classic", () -> admin.listGroups(
                new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))));
        step("listConsumerGroups", () -> admin.listConsumerGroups());
        step("describeConsumerGroups classic", () -> admin.describeConsumerGroups(
                List.of("classic"), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)));
        step("describeConsumerGroups modern", () -> admin.describeConsumerGroups(
                List.of("modern"), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)));
        step("describeConsumerGroups absent", () -> admin.describeConsumerGroups(List.of("absent")));
        step("describeClassicGroups", () -> admin.describeClassicGroups(List.of("classic")));
        step("describeClassicGroups modern", () -> admin.describeClassicGroups(List.of("modern")));
        step("describeClassicGroups absent", () -> admin.describeClassicGroups(List.of("absent")));
        step("deleteConsumerGroups busy", () -> admin.deleteConsumerGroups(List.of("classic", "modern")));
        Map<TopicPartition, OffsetAndMetadata> one = Map.of(at("defaults", 0), new OffsetAndMetadata(3, "note"));
        step("alterConsumerGroupOffsets busy", () -> admin.alterConsumerGroupOffsets("classic", one));
        step("alterConsumerGroupOffsets busy modern", () -> admin.alterConsumerGroupOffsets("modern", one));
        step("deleteConsumerGroupOffsets busy", () -> admin.deleteConsumerGroupOffsets(
                "classic", Set.of(at("defaults", 0))));
        step("removeMembersFromConsumerGroup unknown", () -> admin.removeMembersFromConsumerGroup(
                "classic", new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("other")))));
        step("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup(
                "classic", new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("first")))));
        classic.close(Duration.ZERO);
        modern.close(Duration.ofSeconds(5));
        step("describeConsumerGroups empty", () -> admin.describeConsumerGroups(List.of("classic", "modern")));
        step("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets("classic", one));
        step("alterConsumerGroupOffsets new", () -> admin.alterConsumerGroupOffsets("simple", one));
        step("alterConsumerGroupOffsets absent topic", () -> admin.alterConsumerGroupOffsets(
                "simple", Map.of(at("absent", 0), new OffsetAndMetadata(3))));
        step("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets("classic"));
        step("listConsumerGroupOffsets some", () -> admin.listConsumerGroupOffsets(Map.of(
                "simple", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(at("defaults", 0), at("plain", 0))))));
        step("listConsumerGroupOffsets absent", () -> admin.listConsumerGroupOffsets("absent"));
        step("listConsumerGroupOffsets stable", () -> admin.listConsumerGroupOffsets(
                "classic", new ListConsumerGroupOffsetsOptions().requireStable(true)));
        step("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(
                "simple", Set.of(at("defaults", 0))));
        step("deleteConsumerGroupOffsets absent", () -> admin.deleteConsumerGroupOffsets(
                "absent", Set.of(at("defaults", 0))));
        step("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of("classic", "modern", "absent")));
        step("listGroups after deletion", () -> admin.listGroups());
    }

    private static void transactions() {
        Properties mine = new Properties();
        mine.putAll(settings);
        mine.put("transactional.id", "payments");
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(mine, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        producer.beginTransaction();
        step("send in a transaction", () -> producer.send(new ProducerRecord<>("plain", 0, "k", "v")).get().offset());
        step("describeProducers", () -> admin.describeProducers(List.of(at("plain", 0))));
        step("describeProducers by broker", () -> admin.describeProducers(
                List.of(at("plain", 1)), new DescribeProducersOptions().brokerId(1)));
        step("describeProducers absent", () -> admin.describeProducers(
                List.of(at("absent", 0)), new DescribeProducersOptions().brokerId(1).timeoutMs(1500)));
        step("describeTransactions", () -> admin.describeTransactions(List.of("payments")));
        step("describeTransactions absent", () -> admin.describeTransactions(List.of("absent")));
        step("listTransactions", () -> admin.listTransactions());
        step("listTransactions ongoing", () -> admin.listTransactions(
                new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING))).all());
        step("listTransactions pattern", () -> admin.listTransactions(
                new ListTransactionsOptions().filterOnTransactionalIdPattern("pay.*")).all());
        step("listTransactions bad pattern", () -> admin.listTransactions(
                new ListTransactionsOptions().filterOnTransactionalIdPattern("pay[")).all());
        step("listTransactions long", () -> admin.listTransactions(
                new ListTransactionsOptions().filterOnDuration(100_000)).all());
        step("abortTransaction", () -> {
            ProducerState open = admin.describeProducers(List.of(at("plain", 0))).all().get().get(at("plain", 0))
                    .activeProducers().get(0);
            return admin.abortTransaction(new AbortTransactionSpec(
                    at("plain", 0), open.producerId(), (short) open.producerEpoch(), open.coordinatorEpoch().getAsInt()));
        });
        step("abortTransaction old epoch", () -> admin.abortTransaction(
                new AbortTransactionSpec(at("plain", 0), 0, (short) 0, -1)));
        step("forceTerminateTransaction", () -> admin.forceTerminateTransaction("payments"));
        step("forceTerminateTransaction absent", () -> admin.forceTerminateTransaction("absent"));
        step("fenceProducers", () -> admin.fenceProducers(List.of("payments", "new")));
        step("commit after the fence", () -> {
            producer.commitTransaction();
            return "done";
        });
        step("describeTransactions fenced", () -> admin.describeTransactions(List.of("payments")));
        producer.close(Duration.ZERO);
    }

    private static void security() throws Exception {
        ResourcePattern orders = new ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL);
        AclBinding reads = new AclBinding(
                orders, new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        step("createAcls", () -> admin.createAcls(List.of(reads)));
        step("createAcls bad", () -> admin.createAcls(List.of(new AclBinding(
                new ResourcePattern(ResourceType.CLUSTER, "other", PatternType.LITERAL), reads.entry()))));
        step("createAcls bad principal", () -> admin.createAcls(List.of(new AclBinding(
                orders, new AccessControlEntry("alice", "*", AclOperation.READ, AclPermissionType.ALLOW)))));
        step("createAcls match pattern", () -> admin.createAcls(List.of(new AclBinding(
                new ResourcePattern(ResourceType.TOPIC, "o", PatternType.PREFIXED), reads.entry()))));
        for (int wait = 0; wait < 100 && admin.describeAcls(AclBindingFilter.ANY).values().get().size() < 2; wait++) {
            Thread.sleep(50); // a broker of Kafka learns of them a moment later
        }
        step("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values()
                .thenApply(found -> new TreeSet<>(found.stream().map(Object::toString).toList())));
        step("deleteAcls", () -> admin.deleteAcls(List.of(reads.toFilter())));
        step("deleteAcls none", () -> admin.deleteAcls(List.of(reads.toFilter())));
        step("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(
                new UserScramCredentialUpsertion(
                        "carol", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))));
        step("alterUserScramCredentials few iterations", () -> admin.alterUserScramCredentials(List.of(
                new UserScramCredentialUpsertion(
                        "carol", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5), "secret"))));
        step("alterUserScramCredentials no name", () -> admin.alterUserScramCredentials(List.of(
                new UserScramCredentialUpsertion(
                        "", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))));
        step("alterUserScramCredentials delete absent", () -> admin.alterUserScramCredentials(List.of(
                new UserScramCredentialDeletion("dave", ScramMechanism.SCRAM_SHA_512))));
        step("describeUserScramCredentials", () -> admin.describeUserScramCredentials(List.of("carol")).all());
        step("describeUserScramCredentials absent", () -> admin.describeUserScramCredentials(List.of("dave")).all());
        step("describeUserScramCredentials everyone", () -> admin.describeUserScramCredentials());
        quotas();
        tokens();
    }

    private static void quotas() {
        ClientQuotaEntity alice = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice"));
        step("alterClientQuotas", () -> quota(alice, "producer_byte_rate", 1000.0));
        step("alterClientQuotas unknown", () -> quota(alice, "no_such_rate", 1000.0));
        step("alterClientQuotas negative", () -> quota(alice, "producer_byte_rate", -1.0));
        step("alterClientQuotas fraction", () -> quota(alice, "producer_byte_rate", 10.5));
        step("alterClientQuotas bad type", () -> quota(
                new ClientQuotaEntity(Map.of("planet", "earth")), "producer_byte_rate", 1.0));
        step("alterClientQuotas address", () -> quota(
                new ClientQuotaEntity(Map.of(ClientQuotaEntity.IP, "127.0.0.9")), "connection_creation_rate", 10.0));
        step("alterClientQuotas validated only", () -> admin.alterClientQuotas(
                List.of(new ClientQuotaAlteration(alice, List.of(new ClientQuotaAlteration.Op("request_percentage", 5.0)))),
                new AlterClientQuotasOptions().validateOnly(true)));
        step("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()));
        step("describeClientQuotas of a user", () -> admin.describeClientQuotas(ClientQuotaFilter.containsOnly(
                List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, "alice")))));
        step("alterClientQuotas removal", () -> quota(alice, "producer_byte_rate", null));
    }

    private static Object quota(ClientQuotaEntity entity, String key, Double value) {
        return admin.alterClientQuotas(List.of(
                new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op(key, value)))));
    }

    private static void tokens() {
        byte[][] mac = new byte[1][];
        step("createDelegationToken", () -> {
            var token = admin.createDelegationToken(new CreateDelegationTokenOptions()
                    .renewers(List.of(new KafkaPrincipal("User", "alice"))).maxLifetimeMs(3_600_000)).delegationToken().get();
            mac[0] = token.hmac();
            var info = token.tokenInfo();
            return List.of(info.owner(), info.tokenRequester(), info.renewers(),
                    info.maxTimestamp() - info.issueTimestamp(), info.expiryTimestamp() - info.issueTimestamp());
        });
        step("createDelegationToken bad renewer", () -> admin.createDelegationToken(new CreateDelegationTokenOptions()
                .renewers(List.of(new KafkaPrincipal("Group", "all")))));
        step("describeDelegationToken", () -> {
            int found = 0; // Kafka's brokers learn of a token a moment after the controller has it
            for (int tries = 0; found == 0 && tries < 100; tries++) {
                Thread.sleep(50);
                found = admin.describeDelegationToken().delegationTokens().get().size();
            }
            return found;
        });
        step("renewDelegationToken", () -> admin.renewDelegationToken(mac[0]).expiryTimestamp().get() > 0);
        step("renewDelegationToken unknown", () -> admin.renewDelegationToken(new byte[] {1, 2, 3}));
        step("expireDelegationToken", () -> admin.expireDelegationToken(mac[0]).expiryTimestamp().get() > 0);
        step("expireDelegationToken unknown", () -> admin.expireDelegationToken(new byte[] {1, 2, 3}));
    }

    private static void moves() {
        step("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(at("plain", 0))).partitions());
        step("electLeaders unclean", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(at("plain", 0))).partitions());
        step("electLeaders absent", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(at("absent", 0))).partitions());
        step("electLeaders all", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions());
        step("alterPartitionReassignments", () -> move("plain", Optional.of(List.of(1))));
        step("alterPartitionReassignments unknown broker", () -> move("plain", Optional.of(List.of(9))));
        step("alterPartitionReassignments twice", () -> move("plain", Optional.of(List.of(1, 1))));
        step("alterPartitionReassignments cancel", () -> move("plain", Optional.empty()));
        step("alterPartitionReassignments absent", () -> move("absent", Optional.of(List.of(1))));
        step("listPartitionReassignments", () -> admin.listPartitionReassignments());
        step("listPartitionReassignments some", () -> admin.listPartitionReassignments(Set.of(at("plain", 0))));
        step("listPartitionReassignments absent", () -> admin.listPartitionReassignments(Set.of(at("absent", 0))));
        step("unregisterBroker absent", () -> admin.unregisterBroker(9));
        step("updateFeatures unknown", () -> feature("no.such.feature", 1, FeatureUpdate.UpgradeType.UPGRADE));
        step("updateFeatures too high", () -> feature("transaction.version", 99, FeatureUpdate.UpgradeType.UPGRADE));
        step("updateFeatures downgrade", () -> feature("transaction.version", 1, FeatureUpdate.UpgradeType.UPGRADE));
        step("updateFeatures same", () -> feature("transaction.version", 2, FeatureUpdate.UpgradeType.UPGRADE));
        step("updateFeatures validated only", () -> admin.updateFeatures(
                Map.of("transaction.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE)),
                new UpdateFeaturesOptions().validateOnly(true)));
    }

    private static Object move(String topic, Optional<List<Integer>> to) {
        return admin.alterPartitionReassignments(Map.of(at(topic, 0), to.map(NewPartitionReassignment::new)));
    }

    private static Object feature(String name, int level, FeatureUpdate.UpgradeType type) {
        return admin.updateFeatures(
                Map.of(name, new FeatureUpdate((short) level, type)), new UpdateFeaturesOptions());
    }

    private static void newer() {
        step("addRaftVoter", () -> admin.addRaftVoter(
                9, new Uuid(7, 7), Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 1))));
        step("removeRaftVoter", () -> admin.removeRaftVoter(9, new Uuid(7, 7)));
        step("describeShareGroups", () -> admin.describeShareGroups(List.of("absent")));
        step("listShareGroupOffsets", () -> admin.listShareGroupOffsets(Map.of("absent", new ListShareGroupOffsetsSpec())));
        step("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("shared", Map.of(at("plain", 0), 0L)));
        step("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets("absent", Set.of("plain")));
        step("deleteShareGroups", () -> admin.deleteShareGroups(List.of("absent")));
        step("describeStreamsGroups", () -> admin.describeStreamsGroups(List.of("absent")));
        step("listStreamsGroupOffsets", () -> admin.listStreamsGroupOffsets(
                Map.of("absent", new ListStreamsGroupOffsetsSpec())));
        step("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets(
                "stream", Map.of(at("plain", 0), new OffsetAndMetadata(0))));
        step("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets("absent", Set.of(at("plain", 0))));
        step("deleteStreamsGroups", () -> admin.deleteStreamsGroups(List.of("absent")));
    }

    private static void ends() {
        step("deleteTopics by id", () -> {
            Uuid id = admin.describeTopics(List.of("plain")).allTopicNames().get().get("plain").topicId();
            return admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).topicIdValues().values();
        });
        step("deleteTopics internal", () -> admin.deleteTopics(List.of("__consumer_offsets")));
        step("unregisterBroker alive", () -> admin.unregisterBroker(1, new UnregisterBrokerOptions().timeoutMs(1500)));
    }

    private static void step(String name, Step step) {
        try {
            print(name, step.run());
        } catch (Throwable failed) {
            print(name, failure(failed));
        }
    }

    private static void print(String name, Object result) {
        System.out.println(name + "\t" + show(result).replace('\n', ' '));
    }

    private static String failure(Throwable failed) {
        Throwable cause = failed;
        while ((cause instanceof ExecutionException || cause instanceof InvocationTargetException
                || cause instanceof java.util.concurrent.CompletionException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause.getClass().getSimpleName();
    }

    private static String show(Object value) {
        try {
            if (value instanceof KafkaFuture<?> future) {
                return show(future.get());
            } else if (value instanceof Map<?, ?> map) {
                return map.entrySet().stream().map(each -> show(each.getKey()) + "=" + show(each.getValue()))
                        .sorted().collect(Collectors.joining(", ", "{", "}"));
            } else if (value instanceof Collection<?> several) {
                return several.stream().map(AdminCalls::show).sorted().collect(Collectors.joining(", ", "[", "]"));
            } else if (value instanceof Optional<?> optional) {
                return optional.map(AdminCalls::show).orElse("nothing");
            } else if (value instanceof Throwable failed) {
                return failure(failed);
            } else if (value instanceof Uuid id) {
                return id.equals(Uuid.ZERO_UUID) ? "no id" : "an id";
            } else if (value instanceof Node node) {
                return "node " + node.id() + " " + node.rack() + " " + node.isFenced();
            } else if (value == null || isPlain(value)) {
                return String.valueOf(value);
            }
            return parts(value);
        } catch (Exception failed) {
            return failure(failed);
        }
    }

    private static boolean isPlain(Object value) {
        return !value.getClass().getName().startsWith("org.apache.kafka.clients.admin") || value instanceof Enum<?>;
    }

    private static String parts(Object value) throws Exception {
        StringBuilder shown = new StringBuilder();
        List<Method> getters = Arrays.stream(value.getClass().getMethods())
                .filter(each -> each.getParameterCount() == 0 && !Modifier.isStatic(each.getModifiers()))
                .filter(each -> !OF_OBJECTS.contains(each.getName()) && each.getReturnType() != void.class)
                .sorted((one, other) -> one.getName().compareTo(other.getName())).toList();
        for (Method each : getters) {
            each.setAccessible(true);
            String part;
            try {
                part = show(each.invoke(value));
            } catch (InvocationTargetException failed) {
                part = failure(failed);
            }
            shown.append(shown.isEmpty() ? "" : ", ").append(each.getName()).append(": ").append(part);
        }
        return "(" + shown + ")";
    }

    private static Admin recording(Admin real) {
        return (Admin) Proxy.newProxyInstance(
                Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, (proxy, method, arguments) -> {
                    CALLED.add(method.getName());
                    try {
                        return method.invoke(real, arguments);
                    } catch (InvocationTargetException failed) {
                        throw failed.getCause();
                    }
                });
    }
}
