import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * What bench/pipelines/counts.py does, as a user of Kafka Streams writes it: count and sum of prices by key, exactly
 * once, in RocksDB with a changelog named "totals".
 *
 * <p>Arguments: input topic, output topic, then Kafka Streams' settings as key=value. Prints its events, one a line,
 * as "EPOCH_MS EVENT ...". SIGTERM closes it.
 */
public final class CountApp {

  @JsonIgnoreProperties(ignoreUnknown = true)
  record Purchase(String user, long price) {}

  record Totals(long count, long total) {

    Totals plus(Purchase purchase) {
      return new Totals(count + 1, total + purchase.price());
    }

    byte[] encode() {
      return ByteBuffer.allocate(2 * Long.BYTES).putLong(count).putLong(total).array();
    }

    static Totals decode(byte[] data) {
      ByteBuffer buffer = ByteBuffer.wrap(data);
      return new Totals(buffer.getLong(), buffer.getLong());
    }

    String json() {
      return "{\"count\":" + count + ",\"total\":" + total + "}";
    }
  }

  public static void main(String[] arguments) {
    KafkaStreams streams = new KafkaStreams(topology(arguments[0], arguments[1]), settings(arguments));
    streams.setStateListener((state, before) -> say("state " + state));
    streams.setGlobalStateRestoreListener(new RestoreReport());
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
    reportTasks(streams);
  }

  private static Properties settings(String[] arguments) {
    Properties settings = new Properties();
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("replication.factor", "1");
    settings.put("auto.offset.reset", "earliest");
    for (int i = 2; i < arguments.length; i++) {
      int equals = arguments[i].indexOf('=');
      settings.put(arguments[i].substring(0, equals), arguments[i].substring(equals + 1));
    }
    return settings;
  }

  private static Topology topology(String input, String output) {
    Serde<Totals> totals =
        Serdes.serdeFrom((topic, value) -> value.encode(), (topic, data) -> data == null ? null : Totals.decode(data));
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(input, Consumed.with(Serdes.String(), purchases()))
        .groupByKey(Grouped.with(Serdes.String(), purchases()))
        .aggregate(
            () -> new Totals(0, 0),
            (user, purchase, before) -> before.plus(purchase),
            Materialized.<String, Totals, KeyValueStore<Bytes, byte[]>>as("totals")
                .withKeySerde(Serdes.String())
                .withValueSerde(totals))
        .toStream()
        .mapValues(Totals::json)
        .to(output, Produced.with(Serdes.String(), Serdes.String()));
    return builder.build();
  }

  private static Serde<Purchase> purchases() {
    ObjectReader reader = new ObjectMapper().readerFor(Purchase.class);
    return Serdes.serdeFrom(
        (topic, value) -> {
          throw new UnsupportedOperationException("purchases are only read");
        },
        (topic, data) -> {
          try {
            return reader.readValue(data);
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        });
  }

  /** Say which tasks are active whenever that changes, for as long as the process lives. */
  private static void reportTasks(KafkaStreams streams) {
    String last = "";
    while (true) {
      String now = "active " + activePartitions(streams);
      if (!now.equals(last)) {
        say(now);
        last = now;
      }
      try {
        Thread.sleep(20);
      } catch (InterruptedException stopped) {
        return;
      }
    }
  }

  private static String activePartitions(KafkaStreams streams) {
    Set<Integer> partitions = new TreeSet<>();
    for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
      thread.activeTasks().forEach(task -> partitions.add(task.taskId().partition()));
    }
    return partitions.stream().map(String::valueOf).collect(Collectors.joining(","));
  }

  private static synchronized void say(String event) {
    System.out.println(System.currentTimeMillis() + " " + event);
    System.out.flush();
  }

  private static final class RestoreReport implements StateRestoreListener {

    @Override
    public void onRestoreStart(TopicPartition changelog, String store, long from, long to) {
      say("restore-start " + changelog.partition() + " " + (to - from));
    }

    @Override
    public void onBatchRestored(TopicPartition changelog, String store, long to, long records) {}

    @Override
    public void onRestoreEnd(TopicPartition changelog, String store, long records) {
      say("restore-end " + changelog.partition() + " " + records);
    }
  }
}
