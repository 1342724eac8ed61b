// A driver of Apache's Rust client: commands in as JSON lines, answers and events out.
//
// Knows the official client and the protocol of `tests/conformance/driving.py`, nothing of mqweb.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::engine::general_purpose::STANDARD as BASE64;
use base64::Engine;
use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{Message, MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Map, Value};
use tokio::sync::{oneshot, Mutex as AsyncMutex};

/// A verdict, and where to tell what became of it.
type Ending = (String, oneshot::Sender<Result<(), String>>);

struct Reader {
    consumer: SimpleConsumer,
    topic: String,
    filter: Value,
}

#[derive(Default)]
struct Driver {
    producers: AsyncMutex<HashMap<String, Arc<Producer>>>,
    readers: AsyncMutex<HashMap<String, Arc<Reader>>>,
    handles: Mutex<HashMap<String, Arc<MessageView>>>,
    transactions: Mutex<HashMap<String, oneshot::Sender<Ending>>>,
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let driver = Arc::new(Driver::default());
    for line in io::stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line.expect("a line")).expect("a document");
        let driver = driver.clone();
        runtime.spawn(async move {
            let id = command["id"].clone();
            // The client panics where others return an error, as when nobody is there.
            let carried = tokio::spawn(async move { driver.carry_out(&command).await }).await;
            write(match carried {
                Ok(Ok(answer)) => json!({"id": id, "ok": answer}),
                Ok(Err(text)) => json!({"id": id, "error": {"code": null, "text": text}}),
                Err(panic) => {
                    json!({"id": id, "error": {"code": null, "text": format!("not done: {panic}")}})
                }
            });
        });
    }
    std::process::exit(0);
}

fn write(document: Value) {
    let mut output = io::stdout().lock();
    writeln!(output, "{document}").expect("an open output");
    output.flush().expect("an open output");
}

impl Driver {
    async fn carry_out(&self, command: &Value) -> Result<Value, String> {
        match text(command, "op") {
            "open_producer" => self.open_producer(command).await,
            "send" => self.send(command).await,
            "end" => self.end(command).await,
            "open_simple" => self.open_simple(command).await,
            "receive" => self.receive(command).await,
            "ack" => self.ack(command).await,
            "close" => self.close(command).await,
            op => Err(format!("this client has no {op}")),
        }
    }

    async fn open_producer(&self, command: &Value) -> Result<Value, String> {
        let mut option = ProducerOption::default();
        option.set_topics(texts(&command["topics"]));
        let verdict = command["verdict"].as_str().map(str::to_owned);
        let mut producer = match verdict {
            None => Producer::new(option, configuration(command)),
            Some(verdict) => {
                let name = text(command, "name").to_owned();
                let checker = move |_id: String, message: MessageView| {
                    write(json!({"event": "check", "name": name, "message": seen(&message)}));
                    match verdict.as_str() {
                        "commit" => TransactionResolution::COMMIT,
                        "rollback" => TransactionResolution::ROLLBACK,
                        _ => TransactionResolution::UNKNOWN,
                    }
                };
                let option_of_client = configuration(command);
                Producer::new_transaction_producer(option, option_of_client, Box::new(checker))
            }
        }
        .map_err(as_text)?;
        producer.start().await.map_err(as_text)?;
        let name = text(command, "name").to_owned();
        self.producers.lock().await.insert(name, Arc::new(producer));
        Ok(json!({}))
    }

    async fn send(&self, command: &Value) -> Result<Value, String> {
        let producer = self.producers.lock().await[text(command, "name")].clone();
        let message = message_of(command)?;
        if command["in_transaction"] != json!(true) {
            let receipt = producer.send(message).await.map_err(as_text)?;
            return Ok(json!({"message_id": receipt.message_id(), "recall_handle": null}));
        }
        let (began, has_begun) = oneshot::channel();
        let (verdict, decided) = oneshot::channel::<Ending>();
        // A transaction borrows its producer, so the task that has both ends it.
        tokio::spawn(async move {
            let transaction = match producer.send_transaction_message(message).await {
                Ok(transaction) => transaction,
                Err(error) => return drop(began.send(Err(as_text(error)))),
            };
            drop(began.send(Ok(transaction.message_id().to_owned())));
            let Ok((verdict, done)) = decided.await else { return };
            let ended = match verdict.as_str() {
                "commit" => transaction.commit().await,
                _ => transaction.rollback().await,
            };
            drop(done.send(ended.map_err(as_text)));
        });
        let id: String = has_begun.await.map_err(|error| error.to_string())??;
        self.transactions.lock().expect("sound").insert(id.clone(), verdict);
        Ok(json!({"message_id": id, "transaction": id}))
    }

    async fn end(&self, command: &Value) -> Result<Value, String> {
        let found = self.transactions.lock().expect("sound").remove(text(command, "transaction"));
        let verdict = found.ok_or("there is no such transaction")?;
        let (done, ended) = oneshot::channel();
        let sent = verdict.send((text(command, "verdict").to_owned(), done));
        sent.map_err(|_| "the transaction is gone".to_owned())?;
        ended.await.map_err(|error| error.to_string())??;
        Ok(json!({}))
    }

    async fn open_simple(&self, command: &Value) -> Result<Value, String> {
        let filters = command["filters"].as_object().expect("filters");
        let (topic, filter) = filters.iter().next().expect("one topic");
        let mut option = SimpleConsumerOption::default();
        option.set_consumer_group(text(command, "group"));
        option.set_topics(vec![topic.as_str()]);
        let mut chosen = configuration(command);
        let wait_s = command["wait_s"].as_u64().expect("a number");
        chosen.set_long_polling_timeout(Duration::from_secs(wait_s));
        let mut consumer = SimpleConsumer::new(option, chosen).map_err(as_text)?;
        consumer.start().await.map_err(as_text)?;
        let reader = Reader { consumer, topic: topic.clone(), filter: filter.clone() };
        let name = text(command, "name").to_owned();
        self.readers.lock().await.insert(name, Arc::new(reader));
        Ok(json!({}))
    }

    async fn receive(&self, command: &Value) -> Result<Value, String> {
        let reader = self.readers.lock().await[text(command, "name")].clone();
        let kind = match text(&reader.filter, "type") {
            "sql" => FilterType::Sql,
            _ => FilterType::Tag,
        };
        let filter = FilterExpression::new(kind, text(&reader.filter, "expression"));
        let count = command["messages_max"].as_i64().expect("a number") as i32;
        let invisible = Duration::from_secs(command["invisible_s"].as_u64().expect("a number"));
        let received = reader.consumer.receive_with(&reader.topic, &filter, count, invisible);
        let mut messages = Vec::new();
        for message in received.await.map_err(as_text)? {
            let mut handles = self.handles.lock().expect("sound");
            let handle = format!("m{}", handles.len());
            let mut document = seen(&message);
            document["handle"] = json!(handle);
            messages.push(document);
            handles.insert(handle, Arc::new(message));
        }
        Ok(json!({"messages": messages}))
    }

    async fn ack(&self, command: &Value) -> Result<Value, String> {
        let reader = self.readers.lock().await[text(command, "name")].clone();
        let message = self.handles.lock().expect("sound")[text(command, "handle")].clone();
        reader.consumer.ack(message.as_ref()).await.map_err(as_text)?;
        Ok(json!({}))
    }

    async fn close(&self, command: &Value) -> Result<Value, String> {
        let name = text(command, "name");
        if let Some(producer) = self.producers.lock().await.remove(name) {
            let producer = Arc::try_unwrap(producer).map_err(|_| "it is in use")?;
            producer.shutdown().await.map_err(as_text)?;
        } else if let Some(reader) = self.readers.lock().await.remove(name) {
            let reader = Arc::try_unwrap(reader).map_err(|_| "it is in use")?;
            reader.consumer.shutdown().await.map_err(as_text)?;
        }
        Ok(json!({}))
    }
}

fn configuration(command: &Value) -> ClientOption {
    let mut option = ClientOption::default();
    option.set_access_url(text(command, "endpoint"));
    option.set_enable_tls(command["is_tls"] == json!(true));
    option.set_timeout(Duration::from_secs(10));
    if let Some(key) = command["access_key"].as_str() {
        option.set_access_key(key);
        option.set_secret_key(text(command, "secret"));
    }
    option
}

fn message_of(command: &Value) -> Result<impl Message, String> {
    let body = BASE64.decode(text(command, "body")).expect("Base64");
    let mut builder = MessageBuilder::builder().set_topic(text(command, "topic")).set_body(body);
    if let Some(tag) = command["tag"].as_str() {
        builder = builder.set_tag(tag);
    }
    builder = builder.set_keys(texts(&command["keys"]));
    if let Some(properties) = command["properties"].as_object() {
        builder = builder.set_properties(pairs(properties));
    }
    if let Some(group) = command["message_group"].as_str() {
        builder = builder.set_message_group(group);
    }
    if let Some(at_ms) = command["deliver_at_ms"].as_i64() {
        // Seconds are all that this client knows; never early.
        builder = builder.set_delivery_timestamp(at_ms.div_euclid(1000) + 1);
    }
    if command["in_transaction"] == json!(true) {
        builder = builder.enable_transaction();
    }
    builder.build().map_err(as_text)
}

fn seen(message: &MessageView) -> Value {
    let mut keys = message.keys().to_vec();
    keys.sort();
    json!({
        "topic": message.topic(),
        "message_id": message.message_id(),
        "body": BASE64.encode(message.body()),
        "tag": message.tag(),
        "keys": keys,
        "properties": message.properties(),
        "message_group": message.message_group(),
        "attempt": message.delivery_attempt(),
        // This client does not look at digests.
        "is_corrupted": false,
    })
}

fn as_text(error: ClientError) -> String {
    error.to_string()
}

fn text<'a>(document: &'a Value, field: &str) -> &'a str {
    document[field].as_str().unwrap_or_default()
}

fn texts(list: &Value) -> Vec<String> {
    let found = list.as_array().map(Vec::as_slice).unwrap_or_default();
    found.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn pairs(properties: &Map<String, Value>) -> HashMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    properties.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}
