// A driver of Apache's Java client: commands in as JSON lines, answers and events out.
//
// Knows the official client and the protocol of `tests/conformance/driving.py`, nothing of mqweb.

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public final class Driver {
    private static final Gson JSON = new GsonBuilder().serializeNulls().create();
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    private final PrintStream protocol;
    private final Map<String, Closeable> clients = new ConcurrentHashMap<>();
    private final Map<String, MessageView> handles = new ConcurrentHashMap<>();
    private final Map<String, Transaction> transactions = new ConcurrentHashMap<>();

    private Driver(PrintStream protocol) {
        this.protocol = protocol;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream protocol = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // The client logs to the output too; only the driver's lines are the protocol's.
        System.setOut(System.err);
        Driver driver = new Driver(protocol);
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonObject command = JsonParser.parseString(line).getAsJsonObject();
            threads.submit(() -> driver.carryOut(command));
        }
        System.exit(0);
    }

    private void carryOut(JsonObject command) {
        Map<String, Object> answer = new HashMap<>();
        answer.put("id", command.get("id"));
        try {
            answer.put("ok", operate(command));
        } catch (Throwable error) {
            Map<String, Object> told = new HashMap<>();
            told.put("code", null);
            told.put("text", withCauses(error));
            answer.put("error", told);
        }
        write(answer);
    }

    /** A client that does not start says why in a cause only. */
    private static String withCauses(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable one = error; one != null; one = one.getCause()) {
            text.append(text.isEmpty() ? "" : ", because of ").append(one);
        }
        return text.toString();
    }

    private synchronized void write(Object document) {
        protocol.println(JSON.toJson(document));
    }

    private Map<String, Object> operate(JsonObject command) throws Exception {
        String name = text(command, "name");
        switch (text(command, "op")) {
            case "open_producer":
                clients.put(name, producer(name, command));
                return Map.of();
            case "send":
                return send((Producer) clients.get(name), command);
            case "end":
                Transaction transaction = transactions.remove(text(command, "transaction"));
                if (text(command, "verdict").equals("commit")) {
                    transaction.commit();
                } else {
                    transaction.rollback();
                }
                return Map.of();
            case "recall":
                Producer recalling = (Producer) clients.get(name);
                return Map.of("message_id", recalling
                    .recallMessage(text(command, "topic"), text(command, "handle"))
                    .getMessageId().toString());
            case "open_simple":
                clients.put(name, PROVIDER.newSimpleConsumerBuilder()
                    .setClientConfiguration(configuration(command))
                    .setConsumerGroup(text(command, "group"))
                    .setSubscriptionExpressions(filters(command))
                    .setAwaitDuration(Duration.ofSeconds(command.get("wait_s").getAsInt()))
                    .build());
                return Map.of();
            case "receive":
                return receive((SimpleConsumer) clients.get(name), command);
            case "ack":
                ((SimpleConsumer) clients.get(name)).ack(handles.get(text(command, "handle")));
                return Map.of();
            case "hide":
                ((SimpleConsumer) clients.get(name)).changeInvisibleDuration(
                    handles.get(text(command, "handle")),
                    Duration.ofSeconds(command.get("invisible_s").getAsInt()));
                return Map.of();
            case "open_push":
                clients.put(name, push(name, command));
                return Map.of();
            case "open_lite":
                clients.put(name, PROVIDER.newLitePushConsumerBuilder()
                    .setClientConfiguration(configuration(command))
                    .setConsumerGroup(text(command, "group"))
                    .bindTopic(text(command, "topic"))
                    .setMessageListener(listener(name, command))
                    .build());
                return Map.of();
            case "subscribe_lite":
                ((LitePushConsumer) clients.get(name)).subscribeLite(text(command, "lite_topic"));
                return Map.of();
            case "unsubscribe_lite":
                ((LitePushConsumer) clients.get(name)).unsubscribeLite(text(command, "lite_topic"));
                return Map.of();
            case "lite_topics":
                return Map.of("names", ((LitePushConsumer) clients.get(name)).getLiteTopicSet());
            case "close":
                clients.remove(name).close();
                return Map.of();
            default:
                throw new IllegalArgumentException(text(command, "op"));
        }
    }

    private Producer producer(String name, JsonObject command) throws Exception {
        var builder = PROVIDER.newProducerBuilder()
            .setClientConfiguration(configuration(command))
            .setTopics(texts(command, "topics"));
        String verdict = text(command, "verdict");
        if (verdict != null) {
            builder.setTransactionChecker(message -> {
                write(Map.of("event", "check", "name", name, "message", seen(message)));
                return TransactionResolution.valueOf(verdict.toUpperCase());
            });
        }
        return builder.build();
    }

    private Map<String, Object> send(Producer producer, JsonObject command) throws Exception {
        var builder = PROVIDER.newMessageBuilder()
            .setTopic(text(command, "topic"))
            .setBody(Base64.getDecoder().decode(text(command, "body")));
        if (text(command, "tag") != null) {
            builder.setTag(text(command, "tag"));
        }
        if (command.has("keys") && !command.getAsJsonArray("keys").isEmpty()) {
            builder.setKeys(texts(command, "keys"));
        }
        if (command.has("properties")) {
            for (var entry : command.getAsJsonObject("properties").entrySet()) {
                builder.addProperty(entry.getKey(), entry.getValue().getAsString());
            }
        }
        if (text(command, "message_group") != null) {
            builder.setMessageGroup(text(command, "message_group"));
        }
        if (text(command, "deliver_at_ms") != null) {
            builder.setDeliveryTimestamp(command.get("deliver_at_ms").getAsLong());
        }
        if (text(command, "priority") != null) {
            builder.setPriority(command.get("priority").getAsInt());
        }
        if (text(command, "lite_topic") != null) {
            builder.setLiteTopic(text(command, "lite_topic"));
        }
        if (!command.has("in_transaction") || !command.get("in_transaction").getAsBoolean()) {
            var receipt = producer.send(builder.build());
            Map<String, Object> answer = new HashMap<>();
            answer.put("message_id", receipt.getMessageId().toString());
            // There is one only of a delayed message, and asking for it elsewhere may raise.
            boolean isDelayed = text(command, "deliver_at_ms") != null;
            answer.put("recall_handle", isDelayed ? receipt.getRecallHandle() : null);
            return answer;
        }
        Transaction transaction = producer.beginTransaction();
        String id = producer.send(builder.build(), transaction).getMessageId().toString();
        transactions.put(id, transaction);
        return Map.of("message_id", id, "transaction", id);
    }

    private Map<String, Object> receive(SimpleConsumer consumer, JsonObject command)
        throws Exception {
        List<MessageView> messages = consumer.receive(
            command.get("messages_max").getAsInt(),
            Duration.ofSeconds(command.get("invisible_s").getAsInt()));
        JsonArray seen = new JsonArray();
        for (MessageView message : messages) {
            String handle = "m" + handles.size();
            handles.put(handle, message);
            JsonObject one = JSON.toJsonTree(seen(message)).getAsJsonObject();
            one.addProperty("handle", handle);
            seen.add(one);
        }
        return Map.of("messages", seen);
    }

    private Closeable push(String name, JsonObject command) throws Exception {
        return PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration(command))
            .setConsumerGroup(text(command, "group"))
            .setSubscriptionExpressions(filters(command))
            .setMessageListener(listener(name, command))
            .build();
    }

    /** Fails at a body so often as it was told, and holds others for ever. */
    private MessageListener listener(String name, JsonObject command) {
        Map<String, Integer> failures = new ConcurrentHashMap<>();
        if (command.has("failures")) {
            for (var entry : command.getAsJsonObject("failures").entrySet()) {
                failures.put(entry.getKey(), entry.getValue().getAsInt());
            }
        }
        List<String> holds = List.of(command.has("holds") ? texts(command, "holds") : new String[0]);
        return message -> {
            String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
            boolean isSuccess = failures.merge(body, -1, Integer::sum) < 0;
            Map<String, Object> event = new HashMap<>();
            event.put("event", "message");
            event.put("name", name);
            event.put("message", seen(message));
            event.put("is_success", isSuccess);
            write(event);
            if (holds.contains(body)) {
                waitForEver();
            }
            return isSuccess ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
        };
    }

    private static void waitForEver() {
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static Map<String, Object> seen(MessageView message) {
        ByteBuffer body = message.getBody().duplicate();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        Map<String, Object> seen = new HashMap<>();
        seen.put("topic", message.getTopic());
        seen.put("message_id", message.getMessageId().toString());
        seen.put("body", Base64.getEncoder().encodeToString(bytes));
        seen.put("tag", message.getTag().orElse(null));
        seen.put("keys", message.getKeys().stream().sorted().toList());
        seen.put("properties", message.getProperties());
        seen.put("message_group", message.getMessageGroup().orElse(null));
        seen.put("lite_topic", message.getLiteTopic().orElse(null));
        seen.put("attempt", message.getDeliveryAttempt());
        // A corrupted message does not get this far in this client.
        seen.put("is_corrupted", false);
        return seen;
    }

    private static ClientConfiguration configuration(JsonObject command) {
        var builder = ClientConfiguration.newBuilder()
            .setEndpoints(text(command, "endpoint"))
            .enableSsl(command.has("is_tls") && command.get("is_tls").getAsBoolean())
            .setRequestTimeout(Duration.ofSeconds(10));
        if (text(command, "namespace") != null) {
            builder.setNamespace(text(command, "namespace"));
        }
        if (text(command, "access_key") != null) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(
                text(command, "access_key"), text(command, "secret")));
        }
        return builder.build();
    }

    private static Map<String, FilterExpression> filters(JsonObject command) {
        Map<String, FilterExpression> filters = new HashMap<>();
        for (var entry : command.getAsJsonObject("filters").entrySet()) {
            JsonObject wanted = entry.getValue().getAsJsonObject();
            boolean isSql = text(wanted, "type").equals("sql");
            filters.put(entry.getKey(), new FilterExpression(text(wanted, "expression"),
                isSql ? FilterExpressionType.SQL92 : FilterExpressionType.TAG));
        }
        return filters;
    }

    private static String text(JsonObject command, String field) {
        JsonElement value = command.get(field);
        return value == null || value.isJsonNull() ? null : value.getAsString();
    }

    private static String[] texts(JsonObject command, String field) {
        return command.getAsJsonArray(field).asList().stream()
            .map(JsonElement::getAsString).toArray(String[]::new);
    }
}
