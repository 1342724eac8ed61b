// A driver of Apache's Go client: commands in as JSON lines, answers and events out.
//
// Knows the official client and the protocol of `tests/conformance/driving.py`, nothing of mqweb.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

// The client ends a receive that finds nothing with this code; the others answer an empty list.
const messageNotFound = 40401

type filter struct {
	Type       string `json:"type"`
	Expression string `json:"expression"`
}

type command struct {
	ID            int               `json:"id"`
	Op            string            `json:"op"`
	Name          string            `json:"name"`
	Endpoint      string            `json:"endpoint"`
	Namespace     string            `json:"namespace"`
	AccessKey     string            `json:"access_key"`
	Secret        string            `json:"secret"`
	IsTLS         bool              `json:"is_tls"`
	Topics        []string          `json:"topics"`
	Verdict       string            `json:"verdict"`
	Topic         string            `json:"topic"`
	Body          []byte            `json:"body"`
	Tag           *string           `json:"tag"`
	Keys          []string          `json:"keys"`
	Properties    map[string]string `json:"properties"`
	MessageGroup  *string           `json:"message_group"`
	DeliverAtMs   *int64            `json:"deliver_at_ms"`
	Priority      *int32            `json:"priority"`
	LiteTopic     *string           `json:"lite_topic"`
	InTransaction bool              `json:"in_transaction"`
	Transaction   string            `json:"transaction"`
	Handle        string            `json:"handle"`
	Group         string            `json:"group"`
	Filters       map[string]filter `json:"filters"`
	WaitS         int               `json:"wait_s"`
	MessagesMax   int32             `json:"messages_max"`
	InvisibleS    int               `json:"invisible_s"`
	Failures      map[string]int    `json:"failures"`
	Holds         []string          `json:"holds"`
}

type seen struct {
	Topic        string            `json:"topic"`
	MessageID    string            `json:"message_id"`
	Body         []byte            `json:"body"`
	Tag          *string           `json:"tag"`
	Keys         []string          `json:"keys"`
	Properties   map[string]string `json:"properties"`
	MessageGroup *string           `json:"message_group"`
	LiteTopic    *string           `json:"lite_topic"`
	Attempt      int32             `json:"attempt"`
	IsCorrupted  bool              `json:"is_corrupted"`
	Handle       string            `json:"handle,omitempty"`
}

type answer map[string]any

type driver struct {
	lock         sync.Mutex
	producers    map[string]rmq.Producer
	simples      map[string]rmq.SimpleConsumer
	pushes       map[string]rmq.PushConsumer
	lites        map[string]rmq.LitePushConsumer
	handles      map[string]*rmq.MessageView
	transactions map[string]rmq.Transaction
	output       *os.File
}

func main() {
	d := &driver{
		producers:    map[string]rmq.Producer{},
		simples:      map[string]rmq.SimpleConsumer{},
		pushes:       map[string]rmq.PushConsumer{},
		lites:        map[string]rmq.LitePushConsumer{},
		handles:      map[string]*rmq.MessageView{},
		transactions: map[string]rmq.Transaction{},
		output:       os.Stdout,
	}
	// What the client prints is not the protocol's.
	os.Stdout = os.Stderr
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			panic(err)
		}
		go d.carryOut(c)
	}
}

func (d *driver) write(document any) {
	line, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.output.Write(append(line, '\n'))
}

func (d *driver) carryOut(c command) {
	defer func() {
		if cause := recover(); cause != nil {
			d.write(answer{"id": c.ID, "error": answer{"code": nil, "text": fmt.Sprint(cause)}})
		}
	}()
	ok, err := d.operate(c)
	if err == nil {
		d.write(answer{"id": c.ID, "ok": ok})
		return
	}
	var code any
	if status, is := rmq.AsErrRpcStatus(err); is {
		code = status.GetCode()
	}
	d.write(answer{"id": c.ID, "error": answer{"code": code, "text": err.Error()}})
}

func (d *driver) operate(c command) (any, error) {
	switch c.Op {
	case "open_producer":
		return answer{}, d.openProducer(c)
	case "send":
		return d.send(c)
	case "end":
		d.lock.Lock()
		transaction := d.transactions[c.Transaction]
		d.lock.Unlock()
		if c.Verdict == "commit" {
			return answer{}, transaction.Commit()
		}
		return answer{}, transaction.RollBack()
	case "recall":
		id, err := d.producer(c.Name).Recall(context.Background(), c.Topic, c.Handle)
		return answer{"message_id": id}, err
	case "open_simple":
		return answer{}, d.openSimple(c)
	case "receive":
		return d.receive(c)
	case "ack":
		return answer{}, d.simple(c.Name).Ack(context.Background(), d.handle(c.Handle))
	case "hide":
		return answer{}, d.simple(c.Name).ChangeInvisibleDuration(
			d.handle(c.Handle), time.Duration(c.InvisibleS)*time.Second)
	case "open_push":
		return answer{}, d.openPush(c)
	case "open_lite":
		return answer{}, d.openLite(c)
	case "subscribe_lite":
		return answer{}, d.lite(c.Name).SubscribeLite(*c.LiteTopic)
	case "unsubscribe_lite":
		return answer{}, d.lite(c.Name).UnSubscribeLite(*c.LiteTopic)
	case "close":
		return answer{}, d.close(c.Name)
	}
	return nil, fmt.Errorf("no such operation: %s", c.Op)
}

func configuration(c command) *rmq.Config {
	rmq.EnableSsl = c.IsTLS
	return &rmq.Config{
		Endpoint:      c.Endpoint,
		NameSpace:     c.Namespace,
		ConsumerGroup: c.Group,
		Credentials: &credentials.SessionCredentials{
			AccessKey:    c.AccessKey,
			AccessSecret: c.Secret,
		},
	}
}

func filters(c command) map[string]*rmq.FilterExpression {
	kinds := map[string]rmq.FilterExpressionType{"tag": rmq.TAG, "sql": rmq.SQL92}
	wanted := map[string]*rmq.FilterExpression{}
	for topic, one := range c.Filters {
		wanted[topic] = rmq.NewFilterExpressionWithType(one.Expression, kinds[one.Type])
	}
	return wanted
}

func show(message *rmq.MessageView) seen {
	keys := slices.Sorted(slices.Values(message.GetKeys()))
	if keys == nil {
		keys = []string{}
	}
	properties := message.GetProperties()
	if properties == nil {
		properties = map[string]string{}
	}
	var liteTopic *string
	if name := message.GetLiteTopic(); name != "" {
		liteTopic = &name
	}
	return seen{
		Topic: message.GetTopic(), MessageID: message.GetMessageId(), Body: message.GetBody(),
		Tag: message.GetTag(), Keys: keys, Properties: properties,
		MessageGroup: message.GetMessageGroup(), LiteTopic: liteTopic, Attempt: message.GetDeliveryAttempt(),
	}
}

func (d *driver) openProducer(c command) error {
	options := []rmq.ProducerOption{rmq.WithTopics(c.Topics...)}
	if c.Verdict != "" {
		verdicts := map[string]rmq.TransactionResolution{
			"commit": rmq.COMMIT, "rollback": rmq.ROLLBACK, "unknown": rmq.UNKNOWN,
		}
		check := func(message *rmq.MessageView) rmq.TransactionResolution {
			d.write(answer{"event": "check", "name": c.Name, "message": show(message)})
			return verdicts[c.Verdict]
		}
		options = append(options, rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: check}))
	}
	producer, err := rmq.NewProducer(configuration(c), options...)
	if err != nil {
		return err
	}
	d.lock.Lock()
	d.producers[c.Name] = producer
	d.lock.Unlock()
	return producer.Start()
}

func (d *driver) send(c command) (any, error) {
	message := &rmq.Message{Topic: c.Topic, Body: c.Body, Tag: c.Tag}
	message.SetKeys(c.Keys...)
	for name, value := range c.Properties {
		message.AddProperty(name, value)
	}
	if c.MessageGroup != nil {
		message.SetMessageGroup(*c.MessageGroup)
	}
	if c.DeliverAtMs != nil {
		message.SetDelayTimestamp(time.UnixMilli(*c.DeliverAtMs))
	}
	if c.Priority != nil {
		if err := message.SetPriority(*c.Priority); err != nil {
			return nil, err
		}
	}
	if c.LiteTopic != nil {
		message.SetLiteTopic(*c.LiteTopic)
	}
	producer := d.producer(c.Name)
	if !c.InTransaction {
		receipts, err := producer.Send(context.Background(), message)
		if err != nil {
			return nil, err
		}
		return answer{
			"message_id": receipts[0].MessageID, "recall_handle": receipts[0].RecallHandle,
		}, nil
	}
	transaction := producer.BeginTransaction()
	receipts, err := producer.SendWithTransaction(context.Background(), message, transaction)
	if err != nil {
		return nil, err
	}
	id := receipts[0].MessageID
	d.lock.Lock()
	d.transactions[id] = transaction
	d.lock.Unlock()
	return answer{"message_id": id, "transaction": id}, nil
}

func (d *driver) openSimple(c command) error {
	consumer, err := rmq.NewSimpleConsumer(configuration(c),
		rmq.WithSimpleAwaitDuration(time.Duration(c.WaitS)*time.Second),
		rmq.WithSimpleSubscriptionExpressions(filters(c)))
	if err != nil {
		return err
	}
	d.lock.Lock()
	d.simples[c.Name] = consumer
	d.lock.Unlock()
	return consumer.Start()
}

func (d *driver) receive(c command) (any, error) {
	invisible := time.Duration(c.InvisibleS) * time.Second
	messages, err := d.simple(c.Name).Receive(context.Background(), c.MessagesMax, invisible)
	if status, is := rmq.AsErrRpcStatus(err); is && status.GetCode() == messageNotFound {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	found := []seen{}
	d.lock.Lock()
	defer d.lock.Unlock()
	for _, message := range messages {
		one := show(message)
		one.Handle = fmt.Sprintf("m%d", len(d.handles))
		d.handles[one.Handle] = message
		found = append(found, one)
	}
	return answer{"messages": found}, nil
}

// listener fails at a body so often as it was told, and holds others for ever.
func (d *driver) listener(c command) rmq.MessageListener {
	var lock sync.Mutex
	failures := map[string]int{}
	for body, count := range c.Failures {
		failures[body] = count
	}
	return &rmq.FuncMessageListener{Consume: func(message *rmq.MessageView) rmq.ConsumerResult {
		body := string(message.GetBody())
		lock.Lock()
		left := failures[body]
		failures[body] = left - 1
		lock.Unlock()
		d.write(answer{
			"event": "message", "name": c.Name, "message": show(message), "is_success": left <= 0,
		})
		if slices.Contains(c.Holds, body) {
			select {}
		}
		if left > 0 {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}}
}

func (d *driver) openPush(c command) error {
	consumer, err := rmq.NewPushConsumer(configuration(c),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(filters(c)),
		rmq.WithPushMessageListener(d.listener(c)),
		rmq.WithPushConsumptionThreadCount(20),
		rmq.WithPushMaxCacheMessageCount(1024))
	if err != nil {
		return err
	}
	d.lock.Lock()
	d.pushes[c.Name] = consumer
	d.lock.Unlock()
	return consumer.Start()
}

func (d *driver) openLite(c command) error {
	consumer, err := rmq.NewLitePushConsumer(configuration(c),
		rmq.NewLitePushConsumerConfig(c.Topic, 30*time.Second),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushMessageListener(d.listener(c)),
		rmq.WithPushConsumptionThreadCount(20),
		rmq.WithPushMaxCacheMessageCount(1024))
	if err != nil {
		return err
	}
	d.lock.Lock()
	d.lites[c.Name] = consumer
	d.lock.Unlock()
	return consumer.Start()
}

func (d *driver) lite(name string) rmq.LitePushConsumer {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.lites[name]
}

func (d *driver) close(name string) error {
	if producer := d.producer(name); producer != nil {
		return producer.GracefulStop()
	}
	if simple := d.simple(name); simple != nil {
		return simple.GracefulStop()
	}
	if lite := d.lite(name); lite != nil {
		return lite.GracefulStop()
	}
	d.lock.Lock()
	push := d.pushes[name]
	d.lock.Unlock()
	return push.GracefulStop()
}

func (d *driver) producer(name string) rmq.Producer {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.producers[name]
}

func (d *driver) simple(name string) rmq.SimpleConsumer {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.simples[name]
}

func (d *driver) handle(name string) *rmq.MessageView {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.handles[name]
}
