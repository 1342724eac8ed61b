// A driver of Apache's Node client: commands in as JSON lines, answers and events out.
//
// Knows the official client and the protocol of `tests/conformance/driving.py`, nothing of mqweb.

import { createInterface } from "node:readline";
import rocketmq from "rocketmq-client-nodejs";
import definitions from "rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb.js";

const { Producer, SimpleConsumer, PushConsumer, FilterExpression, ConsumeResult } = rocketmq;
const { LitePushConsumerImpl } = rocketmq;
const { TransactionResolution, FilterType } = definitions;

const VERDICTS = {
  commit: TransactionResolution.COMMIT,
  rollback: TransactionResolution.ROLLBACK,
  unknown: TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
};
// The client's own words go to the error stream; only these lines are the protocol's.
const logger = Object.fromEntries(
  ["debug", "info", "warn", "error", "close"].map((level) => [
    level,
    (...words) => (level === "error" || level === "warn") && console.error(level, ...words),
  ]),
);
const clients = new Map();
const handles = new Map();
const transactions = new Map();

function write(document) {
  process.stdout.write(`${JSON.stringify(document)}\n`);
}

function seen(message) {
  return {
    topic: message.topic,
    message_id: message.messageId,
    body: message.body.toString("base64"),
    tag: message.tag || null,
    keys: [...message.keys].sort(),
    properties: Object.fromEntries(message.properties),
    message_group: message.messageGroup || null,
    lite_topic: message.liteTopic || null,
    attempt: message.deliveryAttempt ?? null,
    is_corrupted: message.corrupted === true,
  };
}

function options(command) {
  const chosen = {
    endpoints: command.endpoint,
    namespace: command.namespace ?? "",
    requestTimeout: 10000,
    sslEnabled: command.is_tls === true,
    logger,
  };
  if (command.access_key) {
    chosen.sessionCredentials = {
      accessKey: command.access_key,
      accessSecret: command.secret,
    };
  }
  return chosen;
}

function filters(command) {
  const kinds = { tag: FilterType.TAG, sql: FilterType.SQL };
  return new Map(
    Object.entries(command.filters).map(([topic, wanted]) => [
      topic,
      new FilterExpression(wanted.expression, kinds[wanted.type]),
    ]),
  );
}

// It fails at a body so often as it was told, and holds others for ever.
function listener(command) {
  const failures = { ...command.failures };
  return {
    async consume(message) {
      const text = message.body.toString();
      const left = failures[text] ?? 0;
      failures[text] = left - 1;
      write({ event: "message", name: command.name, message: seen(message), is_success: left <= 0 });
      if (command.holds?.includes(text)) await new Promise(() => {});
      return left <= 0 ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
    },
  };
}

const operations = {
  async open_producer(command) {
    const chosen = { ...options(command), topics: command.topics };
    if (command.verdict) {
      chosen.checker = {
        async check(message) {
          write({ event: "check", name: command.name, message: seen(message) });
          return VERDICTS[command.verdict];
        },
      };
    }
    const producer = new Producer(chosen);
    clients.set(command.name, producer);
    await producer.startup();
    return {};
  },

  async send(command) {
    const producer = clients.get(command.name);
    const message = { topic: command.topic, body: Buffer.from(command.body, "base64") };
    if (command.tag != null) message.tag = command.tag;
    if (command.keys) message.keys = command.keys;
    if (command.properties) message.properties = new Map(Object.entries(command.properties));
    if (command.message_group != null) message.messageGroup = command.message_group;
    if (command.deliver_at_ms != null) message.deliveryTimestamp = new Date(command.deliver_at_ms);
    if (command.priority != null) message.priority = command.priority;
    if (command.lite_topic != null) message.liteTopic = command.lite_topic;
    if (!command.in_transaction) {
      const receipt = await producer.send(message);
      return { message_id: receipt.messageId, recall_handle: receipt.recallHandle };
    }
    const transaction = producer.beginTransaction();
    const receipt = await producer.send(message, transaction);
    transactions.set(receipt.messageId, transaction);
    return { message_id: receipt.messageId, transaction: receipt.messageId };
  },

  async end(command) {
    const transaction = transactions.get(command.transaction);
    await (command.verdict === "commit" ? transaction.commit() : transaction.rollback());
    return {};
  },

  async recall(command) {
    const receipt = await clients.get(command.name).recallMessage(command.topic, command.handle);
    return { message_id: receipt.messageId };
  },

  async open_simple(command) {
    const consumer = new SimpleConsumer({
      ...options(command),
      consumerGroup: command.group,
      subscriptions: filters(command),
      awaitDuration: command.wait_s * 1000,
    });
    clients.set(command.name, consumer);
    await consumer.startup();
    return {};
  },

  async receive(command) {
    const consumer = clients.get(command.name);
    const messages = await consumer.receive(command.messages_max, command.invisible_s * 1000);
    return {
      messages: messages.map((message) => {
        const handle = `m${handles.size}`;
        handles.set(handle, message);
        return { ...seen(message), handle };
      }),
    };
  },

  async ack(command) {
    await clients.get(command.name).ack(handles.get(command.handle));
    return {};
  },

  async hide(command) {
    const message = handles.get(command.handle);
    await clients.get(command.name).changeInvisibleDuration(message, command.invisible_s * 1000);
    return {};
  },

  async open_push(command) {
    const consumer = new PushConsumer({
      ...options(command),
      consumerGroup: command.group,
      subscriptions: filters(command),
      messageListener: listener(command),
    });
    clients.set(command.name, consumer);
    await consumer.startup();
    return {};
  },

  async open_lite(command) {
    const consumer = new LitePushConsumerImpl({
      ...options(command),
      consumerGroup: command.group,
      bindTopic: command.topic,
      messageListener: listener(command),
    });
    clients.set(command.name, consumer);
    await consumer.startup();
    return {};
  },

  async subscribe_lite(command) {
    await clients.get(command.name).subscribeLite(command.lite_topic);
    return {};
  },

  async unsubscribe_lite(command) {
    await clients.get(command.name).unsubscribeLite(command.lite_topic);
    return {};
  },

  async close(command) {
    const client = clients.get(command.name);
    clients.delete(command.name);
    await client.shutdown();
    return {};
  },
};

async function carryOut(command) {
  try {
    write({ id: command.id, ok: await operations[command.op](command) });
  } catch (error) {
    const code = Number.isInteger(error.code) ? error.code : null;
    write({ id: command.id, error: { code, text: `${error.name}: ${error.message}` } });
  }
}

// A client that ends its process by an error nobody catches has failed, and must not look idle.
createInterface({ input: process.stdin })
  .on("line", (line) => carryOut(JSON.parse(line)))
  .on("close", () => process.exit(0));
